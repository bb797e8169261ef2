"""Predictive distributions: immutable NumPy containers, one distribution per row."""

from skgp.distributions._base import Distribution, concat
from skgp.distributions._components import Components
from skgp.distributions._continuous import ContinuousDistribution
from skgp.distributions._counts import CountMixture
from skgp.distributions._discrete import Bernoulli, Categorical, DiscreteDistribution
from skgp.distributions._kernel_density import kernel_density
from skgp.distributions._mixing import mix
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._transformed import MonotoneTransformed

__all__ = [
    "Bernoulli",
    "Categorical",
    "Components",
    "ContinuousDistribution",
    "CountMixture",
    "DiscreteDistribution",
    "Distribution",
    "MonotoneTransformed",
    "NormalMixture",
    "concat",
    "kernel_density",
    "mix",
]
