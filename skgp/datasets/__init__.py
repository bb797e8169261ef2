"""Tables made up for tests and examples, whose predictive distributions are not normal."""

from skgp.datasets._bimodal import bimodal_distribution, make_bimodal
from skgp.datasets._glyphs import make_glyphs

__all__ = ["bimodal_distribution", "make_bimodal", "make_glyphs"]
