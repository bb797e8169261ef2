"""The classes and functions that a file may name, apart from those that a user passes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

import gpytorch
import torch
from gpytorch.utils import transforms
from torch import nn

from skgp.core.baselines import cvae as cvae_network
from skgp.core.baselines import dropout
from skgp.core.copies import Copies
from skgp.core.kernels import gpytorch_kernel, noisy, stationary
from skgp.core.layers import posteriors, projected, sparse, two_bases
from skgp.core.layers.noise import MixtureNoise
from skgp.core.likelihoods import (
    bernoulli,
    censored,
    counts,
    gaussian,
    heteroscedastic,
    ordinal,
    robust_max,
    softmax,
    student_t,
)
from skgp.core.marginal import exact as exact_layer
from skgp.core.networks import features, warping
from skgp.core.networks.activations import ErrorFunction, LinearErrorFunction, Ramp
from skgp.core.nodes import continuous, rules, sigma_points
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.stacks import (
    latent_stack,
    mixing,
    readout,
    readout_stack,
    row_posterior,
    stack,
    units,
)
from skgp.core.training import inversion, markov_chain
from skgp.estimators import (
    dgp,
    dgp_classifier,
    dspp,
    dspp_classifier,
    exact,
    fitc,
    gprn,
    gprn_embedding,
    iwdgp,
    mogp,
    mogp_embedding,
    neural_dgp,
    ppgpr,
    ppgpr_classifier,
    sbgprn,
    sbgprn_embedding,
    svgp,
    svgp_classifier,
    vfitc,
)
from skgp.estimators._estimator import Estimator
from skgp.estimators.baselines import cvae, mc_dropout, sghmc
from skgp.fitting import model, stacking
from skgp.fitting.rows import Rows
from skgp.fitting.stream import Opening
from skgp.fitting.table import Scale
from skgp.recipes import autoencoder, chain, laplace
from skgp.recipes import dropout as dropout_recipe
from skgp.recipes import exact as exact_recipe
from skgp.recipes import fitc as fitc_recipe

_FAMILIES: Final = (
    *(cvae, dgp, dgp_classifier, dspp, dspp_classifier, exact, fitc, gprn, iwdgp, mc_dropout),
    *(gprn_embedding, mogp, mogp_embedding, neural_dgp, ppgpr, ppgpr_classifier),
    *(sbgprn, sbgprn_embedding),
    *(sghmc, svgp, svgp_classifier, vfitc),
)
_PARTS: Final = (  # where the torch modules of a model are defined
    *(autoencoder, bernoulli, chain, continuous, counts, cvae_network, dropout, dropout_recipe),
    *(exact_layer, exact_recipe, fitc_recipe),
    *(features, gaussian, laplace, stacking),
    *(
        censored,
        gpytorch_kernel,
        heteroscedastic,
        inversion,
        latent_stack,
        markov_chain,
        mixing,
        model,
        noisy,
        ordinal,
    ),
    *(posteriors, projected, readout, readout_stack, robust_max, row_posterior, rules),
    *(sigma_points, softmax, sparse, stack, stationary, student_t, two_bases, units, warping),
)
_VALUES: Final = (
    *(ConjugateGradients, ErrorFunction, LinearErrorFunction, Opening, Ramp, Rows, Scale),
    *(Copies, MixtureNoise, stack.Connection),
)
# Networks compute with tensors alone, whatever their attributes are; none runs a text or a file.
_NETWORKS: Final = (
    *(nn.BatchNorm1d, nn.Dropout, nn.ELU, nn.GELU, nn.Identity, nn.LayerNorm, nn.LeakyReLU),
    *(nn.Linear, nn.ModuleDict, nn.ModuleList, nn.ParameterDict, nn.ParameterList, nn.ReLU),
    *(nn.Sequential, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Tanh),
)
_KERNELS: Final = (
    *(gpytorch.kernels.AdditiveKernel, gpytorch.kernels.ConstantKernel),
    *(gpytorch.kernels.CosineKernel, gpytorch.kernels.LinearKernel, gpytorch.kernels.MaternKernel),
    *(gpytorch.kernels.PeriodicKernel, gpytorch.kernels.PiecewisePolynomialKernel),
    *(gpytorch.kernels.PolynomialKernel, gpytorch.kernels.ProductKernel),
    *(gpytorch.kernels.RBFKernel, gpytorch.kernels.RQKernel, gpytorch.kernels.ScaleKernel),
    *(gpytorch.kernels.SpectralMixtureKernel, gpytorch.constraints.GreaterThan),
    *(gpytorch.constraints.Interval, gpytorch.constraints.LessThan, gpytorch.constraints.Positive),
    *(gpytorch.priors.GammaPrior, gpytorch.priors.NormalPrior),
)
_FUNCTIONS: Final = {
    "skgp:spread": latent_stack.spread,
    "torch:exp": torch.exp,
    "torch:sigmoid": torch.sigmoid,
    "torch:softplus": nn.functional.softplus,
    "gpytorch:inv_sigmoid": transforms.inv_sigmoid,
    "gpytorch:inv_softplus": transforms.inv_softplus,
}


def _defined(modules: Iterable[ModuleType], base: type) -> list[type]:
    """The subclasses of a class that modules define."""
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
    ]


def _named(package: str, classes: Iterable[type]) -> dict[str, Any]:
    """Short names: where a class is defined may change from version to version."""
    return {f"{package}:{cls.__name__}": cls for cls in classes}


_ESTIMATORS: Final = _named("skgp", _defined(_FAMILIES, Estimator))
_TRUSTED: Final = {
    **_named("skgp", [*_defined(_PARTS, nn.Module), *_VALUES]),
    **_named("torch", _NETWORKS),
    **_named("gpytorch", _KERNELS),
    **_FUNCTIONS,
}
NAMES: Final[Mapping[Any, str]] = MappingProxyType(
    {value: name for name, value in {**_TRUSTED, **_ESTIMATORS}.items()}
)


def name_of(value: Any) -> str:
    """The name of a class or function in a file."""
    return NAMES.get(value) or f"{value.__module__}:{value.__qualname__}"


class Trust:
    """What the names in a file stand for.

    Parameters
    ----------
    users : sequence of classes and functions
        Further ones, which a user trusts.
    """

    def __init__(self, users: Iterable[type | Callable[..., Any]]) -> None:
        self._users = {name_of(value): value for value in users}

    def estimator(self, name: Any) -> type[Estimator] | None:
        """The estimator class of a name, None if it is not trusted."""
        return self._found(name, _ESTIMATORS, Estimator)

    def module(self, name: Any) -> type[nn.Module] | None:
        """The torch module class of a name, None if it is not trusted."""
        return self._found(name, _TRUSTED, nn.Module)

    def value(self, name: Any) -> type | None:
        """The class of a plain object, None if it is not trusted."""
        found = self._found(name, _TRUSTED, object)
        return None if found is None or issubclass(found, nn.Module | Estimator) else found

    def function(self, name: Any) -> Any:
        """A function, or a class that the user trusts, as a value; None if it is not trusted."""
        return _FUNCTIONS.get(name) or self._users.get(name)

    def _found(self, name: str, trusted: Mapping[str, Any], base: type) -> Any:
        found = trusted.get(name) or self._users.get(name)
        return found if isinstance(found, type) and issubclass(found, base) else None
