"""Tables for tests and examples, whose noise or densities one normal does not describe."""

from skgp.datasets._bimodal import bimodal_distribution, make_bimodal
from skgp.datasets._glyphs import make_glyphs
from skgp.datasets._motorcycle import load_motorcycle

__all__ = ["bimodal_distribution", "load_motorcycle", "make_bimodal", "make_glyphs"]
