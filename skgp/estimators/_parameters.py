"""Constructor parameters: how they are stored, and what they may be."""

import inspect
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, Final, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from skgp.core.activations import ACTIVATIONS
from skgp.core.kernels import PROFILES, GPyTorchBase
from skgp.core.quadrature import GRIDS
from skgp.estimators._documentation import documented
from skgp.recipes.hidden import TOPOLOGIES

ClassT = TypeVar("ClassT", bound=type[BaseEstimator])
Constraint = list[Any]


def at_least(number: int) -> Interval:
    """Integers from a number upwards."""
    return Interval(Integral, number, None, closed="left")


def one_of(*names: str) -> StrOptions:
    """One of these names."""
    return StrOptions(set(names))


_COUNT: Final = [at_least(1)]
_PENALTY: Final = [Interval(Real, 0, 1e15, closed="both")]

# What scikit-learn checks of each parameter, in whichever constructor it stands.
CONSTRAINTS: Final[dict[str, Constraint]] = {
    "activation": [one_of(*ACTIVATIONS)],
    "amortized": ["boolean"],
    "architecture": [str],
    "batch_size": _COUNT,
    "beta_reg": _PENALTY,
    "class_weight": [dict, one_of("balanced"), None],
    "covariance": [one_of("full", "diagonal")],
    "device": [str],
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "dtype": [one_of("auto", "float32", "float64")],
    "early_stopping": ["boolean"],
    "feature_extractor": [None, one_of("dkl", "deep-kernel"), "array-like", callable],
    "friction": [Interval(Real, 0, 1, closed="right")],
    "gamma": [Interval(Real, 1, None, closed="neither"), None],
    "hidden_layer_sizes": [at_least(1), "array-like"],
    "hidden_mean": [one_of("linear", "identity", "concatenate")],
    "inference": [one_of("sampling", "analytic")],
    "jitter": [Interval(Real, 0, 1, closed="right")],
    "kernel": [one_of(*PROFILES), GPyTorchBase],
    "kl_annealing": [at_least(0)],
    "label_noise": [Interval(Real, 0, 1, closed="neither")],
    "latent_dim": _COUNT,
    "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
    "likelihood": [one_of("auto", "probit", "logit", "robust-max", "softmax")],
    "max_cholesky_size": [at_least(0)],
    "max_components": _COUNT,
    "max_iter": [at_least(1), one_of("auto")],
    "memory": [None, str, HasMethods(["cache"])],
    "n_burn_in": [at_least(0)],
    "n_components": _COUNT,
    "n_hidden": [at_least(1), None],
    "n_importance": _COUNT,
    "n_inducing": _COUNT,
    "n_inducing_mean": _COUNT,
    "n_iter_no_change": _COUNT,
    "n_latents": [at_least(1), None],
    "n_layers": _COUNT,
    "n_orthogonal": [at_least(0)],
    "n_posterior_samples": _COUNT,
    "n_prediction_samples": _COUNT,
    "n_restarts": _COUNT,
    "n_samples": _COUNT,
    "n_sites": _COUNT,
    "noise_floor": [Interval(Real, 0, 1e30, closed="right")],  # in the range of float32
    "normalize_X": ["boolean"],
    "normalize_y": ["boolean"],
    "objective": [one_of("elbo", "predictive")],
    "optimizer": [one_of("adam", "natgrad")],
    "quadrature": [one_of("qr3", *GRIDS)],
    "random_state": ["random_state"],
    "share_kernel": ["boolean"],
    "step_size": [Interval(Real, 0, 1e6, closed="right")],
    "thinning": _COUNT,
    "tol": [Interval(Real, 0, None, closed="left")],
    "topology": [one_of(*TOPOLOGIES)],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "verbose": ["verbose"],
    "warm_start": ["boolean"],
    "weight_decay": _PENALTY,
    "width": _COUNT,
}
LAYER_KERNELS: Final = [*CONSTRAINTS["kernel"], list, tuple]  # of several layers


def family(
    constraints: Mapping[str, Constraint] | None = None, **texts: str
) -> Callable[[ClassT], ClassT]:
    """Class decorator of an estimator: what its parameters may be, and its documentation.

    Parameters
    ----------
    constraints : mapping, optional
        Those that differ from `CONSTRAINTS`.
    **texts : str
        Values of the placeholders of the docstring, see `documented`.
    """

    def complete(cls: ClassT) -> ClassT:
        table = CONSTRAINTS | dict(constraints or {})
        names = [name for name in inspect.signature(cls).parameters]
        cls._parameter_constraints = {name: table[name] for name in names}
        return documented(**texts)(cls)

    return complete


def store_parameters(estimator: BaseEstimator, arguments: Mapping[str, Any]) -> None:
    """Store every parameter untouched under its name, as scikit-learn wants constructors to do.

    Parameters
    ----------
    estimator : estimator
    arguments : mapping
        The `locals()` of its constructor, taken before any other local is made.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)
