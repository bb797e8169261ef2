"""Networks of the inputs: features that a kernel sees, and dense tanh networks."""

import copy
import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from skgp.core.numerics.draws import make_generator, make_seed, seeded

FeatureExtractor: TypeAlias = str | Sequence[int] | Callable[[int], nn.Module]

_NEAR_IDENTITY_SIZES: Final = (50, 50)
_NEAR_IDENTITY_START: Final = 0.1  # factor on the Glorot weights of the last layer
DKL_SIZES: Final = (1000, 1000, 500, 50, 20)  # deep sigma point paper, appendix A.5


def dense_network(n_features: int, sizes: Sequence[int]) -> nn.Sequential:
    """Dense layers with batch norm and ReLU; the last is standardised by a batch norm alone.

    Parameters
    ----------
    n_features : int
        Number D of inputs.
    sizes : sequence of int
        Widths of the layers, the last that of the features.

    Returns
    -------
    Sequential
        From (B, D) to (B, sizes[-1]).
    """
    *hidden, n_out = sizes
    widths = [n_features, *hidden]
    layers: list[nn.Module] = []
    for n_in, width in pairwise(widths):
        layers += [_linear(n_in, width), nn.BatchNorm1d(width, dtype=torch.float32), nn.ReLU()]
    norm = nn.BatchNorm1d(n_out, affine=False, dtype=torch.float32)
    return nn.Sequential(*layers, _linear(widths[-1], n_out), norm)


def _linear(n_in: int, n_out: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, dtype=torch.float32)


def tanh_network(sizes: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Dense tanh layers and a linear one, with Glorot weights and biases of zero.

    Parameters
    ----------
    sizes : sequence of int
        Widths from the inputs to the outputs.
    generator : torch.Generator
        Source of the weights.

    Returns
    -------
    Sequential
        From (..., sizes[0]) to (..., sizes[-1]).
    """
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        # Not initialised by torch, which would draw from the global generator.
        layer = nn.utils.skip_init(nn.Linear, n_in, n_out, dtype=torch.float32)
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class NearIdentity(nn.Module):
    """x -> x (1 + g(x)), column by column, with a tanh network g that starts near zero.

    The deep kernel of the neural likelihoods paper: features keep the number and the units of the
    inputs.

    Parameters
    ----------
    n_features : int
    seed : int
        Seeds the weights.
    """

    def __init__(self, n_features: int, seed: int) -> None:
        super().__init__()
        generator = make_generator(seed, "weights")
        self.network = tanh_network([n_features, *_NEAR_IDENTITY_SIZES, n_features], generator)
        with torch.no_grad():
            for parameter in self.network[-1].parameters():
                parameter.mul_(_NEAR_IDENTITY_START)

    def forward(self, x: Tensor) -> Tensor:
        factor: Tensor = 1.0 + self.network(x)
        return x * factor


def make_features(extractor: FeatureExtractor, n_features: int, seed: int) -> nn.Module:
    """The network of a deep kernel from what a user passed, with weights drawn from `seed`.

    Parameters
    ----------
    extractor : "dkl", "deep-kernel", sequence of int, or callable (n_features) -> Module
        The network of the deep sigma point paper (appendix A.5), that of the neural likelihoods
        paper (`NearIdentity`), the widths of a network of the first kind, or a factory.
    n_features : int
    seed : int

    Returns
    -------
    Module

    Raises
    ------
    TypeError
        If the factory is a module, does not take the number of inputs, or does not return a module.
    ValueError
        If the module cannot be copied.
    """
    if extractor == "deep-kernel":
        return NearIdentity(n_features, seed)
    # Modules draw their weights from the global generator.
    with seeded(torch.device("cpu"), make_seed(seed, "weights")):
        if extractor == "dkl":
            return dense_network(n_features, DKL_SIZES)
        if callable(extractor):
            return _made(extractor, n_features)
        assert not isinstance(extractor, str)
        return dense_network(n_features, extractor)


def _made(factory: Callable[[int], nn.Module], n_features: int) -> nn.Module:
    """A copy of the factory's module: one that the user keeps, or returns again, is not trained."""
    if isinstance(factory, nn.Module):
        raise TypeError(
            "feature_extractor must be a function that makes a module, got a module: pass "
            "lambda n_features: module"
        )
    try:
        inspect.signature(factory).bind(n_features)
    except TypeError as error:
        raise TypeError(
            f"feature_extractor must take one argument, the number of inputs: {error}"
        ) from error
    except ValueError:
        pass  # some callables have no signature
    module = factory(n_features)
    if not isinstance(module, nn.Module):
        raise TypeError(
            "feature_extractor must return a torch.nn.Module when it is called with the "
            f"number of inputs, got {type(module).__name__}"
        )
    try:
        return copy.deepcopy(module)
    except RuntimeError as error:
        raise ValueError(
            f"feature_extractor returns a module that cannot be copied: {error}"
        ) from error


def check_batch(features: nn.Module, n: int) -> None:
    """Refuse a batch of n rows that a network in training cannot take.

    Raises
    ------
    ValueError
        If a batch norm, which divides by the deviation over the batch, would see a single row.
    """
    if n == 1 and any(isinstance(m, _BatchNorm) and m.training for m in features.modules()):
        raise ValueError(
            "feature_extractor has a batch norm, which needs at least two rows, and got a batch "
            "with n_samples=1: pass more rows or larger batches"
        )


def start_features(features: nn.Module, x: Tensor) -> Tensor:
    """Set the running statistics of batch norms to those of x (n, D); the features of x.

    Parameters
    ----------
    features : Module
    x : Tensor of shape (n, D)

    Returns
    -------
    Tensor of shape (n, F)

    Raises
    ------
    ValueError
        If the module fails, if the features are not a matrix with a row for each input row and the
        dtype of the inputs, or if there is a batch norm and a single row.
    """
    check_batch(features, len(x))
    try:
        with torch.no_grad():
            update_bn([x], features)
            h = features.eval()(x)
    except Exception as error:  # of any type: it comes from the user's module
        raise ValueError(
            f"feature_extractor has made a module that fails for inputs of shape {tuple(x.shape)}: "
            f"{error}"
        ) from error
    features.train()
    if not isinstance(h, Tensor) or h.dim() != 2 or len(h) != len(x) or not h.shape[1]:
        result = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise ValueError(
            f"feature_extractor turns inputs of shape {tuple(x.shape)} into {result}: it must "
            "return a matrix with columns and with one row for each input row"
        )
    if h.dtype != x.dtype:
        raise ValueError(
            f"feature_extractor turns inputs of {x.dtype} into {h.dtype}: its module must keep the "
            "dtype, which `to` changes"
        )
    return h


def half_squared_norm(module: nn.Module) -> Tensor | float:
    """Half the sum of squares of all parameters: its gradient is the parameters themselves."""
    return sum((0.5 * p.square().sum() for p in module.parameters()), start=0.0)
