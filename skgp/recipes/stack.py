"""The model that is built from a stack as data."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from torch import Tensor

from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.exact_starts import go_on, is_rough, start_from_few, start_from_trial
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.marginal.starts import start_hyperparameters, start_posterior
from skgp.core.networks.features import tanh_network
from skgp.core.nodes.rules import Trivial
from skgp.core.training.plan import count_batches
from skgp.fitting.model import Model
from skgp.fitting.setup import Setup
from skgp.recipes.spec import (
    INITIAL_NOISE,
    MOST_FIXED_INDUCING,
    Below,
    StackSpec,
    kernel_of,
    nothing_below,
)

# Rows from which an untrained GP of many inputs learns its kernel.
_FEW_ROWS: Final = 1000  # first
_MORE_ROWS: Final = 2000  # then, starting from that kernel
_FEWEST_ROWS: Final = 700  # which show what inputs matter, and whether a function is rough
# Noise variance, relative to that of the targets, up to which hidden layers explain them at first.
_LITTLE_NOISE: Final = 0.05
_MEAN_SIZES: Final = (50, 50)  # of a neural prior mean


def build_stack(spec: StackSpec, setup: Setup) -> Model:
    """From the inputs upwards: features, hidden layers, a top layer, outputs."""
    outputs = spec.outputs(spec, setup)
    features, x = spec.features(setup)
    if features is None and spec.warping is not None:
        features, x = spec.warping(setup, outputs.latent, spec.architecture.kernels)
    make_below = spec.architecture.below
    below = nothing_below(x, Trivial()) if make_below is None else make_below(spec, setup, x)
    top = _top_layer(spec, setup, below, len(outputs.latent))
    if spec.initial_values.prior_mean == "network":
        sizes = [below.h.shape[1], *_MEAN_SIZES, len(outputs.latent)]
        top.mean_network = tanh_network(sizes, setup.generator("mean network")).double()
        with torch.no_grad():
            outputs = outputs._replace(latent=outputs.latent - top.mean_network(below.h).mT)

    rough = _is_rough(spec, setup, x, below, outputs.latent, top)
    top, noise_var = _start(spec, setup, below, outputs.latent, top, rough=rough is True)
    model = outputs.model(below.stack(top, features), x, below.nodes, noise_var)
    model.is_rough = rough
    if spec.is_flat and outputs.settle is not None:
        outputs.settle(model, below.h)
    if spec.initial_values.prior_mean == "zero":
        for layer in model.stack.layers:
            layer.mean.requires_grad_(False)
    return model


def _top_layer(spec: StackSpec, setup: Setup, below: Below, n_gps: int) -> SparseLayer:
    """A top layer of so many GPs at its initial values."""
    number = 1 + below.n_layers
    kernel = kernel_of(spec, setup, below.h, n_gps, spec.architecture.kernels[-1], number)
    return spec.top(spec, setup, kernel, below.h, n_gps).double()


def _is_rough(
    spec: StackSpec, setup: Setup, x: Tensor, below: Below, latent: Tensor, top: SparseLayer
) -> bool | None:
    """Whether a GP of all inputs starts from short lengthscales; None if that is not asked."""
    if spec.is_rough is not None:
        return spec.is_rough
    is_compared = spec.start == "optimum" and (spec.is_flat or spec.inducing.n_inducing == "auto")
    is_used = (is_compared or spec.start == "descent") and setup.fits_into(spec.batch_size)
    if not is_used or len(latent) > 1 or spec.initial_values.initial_noise is not None:
        return None
    h, make_below = below.h, spec.architecture.below
    if is_compared and make_below is not None:  # hidden layers of the untrained GP are flat
        h = make_below(replace(spec, is_flat=True), setup, x).h
    return starts_rough(setup, h, latent, top)


def starts_rough(setup: Setup, h: Tensor, latent: Tensor, layer: SparseLayer) -> bool:
    """Whether a GP of all inputs h (n, F) of a function (1, n) starts from short lengthscales."""
    rows = _some_rows(setup, h, latent, _FEWEST_ROWS)
    return is_rough(layer, rows, torch.full_like(latent[:, 0], INITIAL_NOISE))


def _some_rows(setup: Setup, h: Tensor, latent: Tensor, n: int) -> ObservedRows:
    """At most n rows of inputs h (n, F) and functions (W, n), each of which stands for itself."""
    few, _ = setup.subsample(n)
    return ObservedRows(h[few], latent[:, few], setup.observed_weight[few])


def _start(
    spec: StackSpec, setup: Setup, below: Below, latent: Tensor, top: SparseLayer, *, rough: bool
) -> tuple[SparseLayer, Tensor | None]:
    """The top layer and the noise variances (W,) to start from; None if nothing is known of them.

    A top layer that is fitted to the first guess of hidden layers keeps them from moving, and on a
    larger data set that costs more than it saves, unless that guess explains the targets.
    """
    given = spec.initial_values.initial_noise
    is_fitted = not below.n_layers or count_batches(len(below.h), spec.batch_size) == 1
    if not is_fitted and (given is not None or spec.start != "optimum"):
        return top, None if given is None else torch.full_like(latent[:, 0], given)
    started = deepcopy(top)
    noise_var = torch.full_like(latent[:, 0], INITIAL_NOISE if given is None else given)
    has_all = top.Z.shape[-2] >= setup.n_distinct
    some = partial(_some_rows, setup, below.h, latent)
    if given is None and (spec.start == "few rows" or (rough and spec.start == "descent")):
        start = start_from_trial if has_all or rough else start_from_few
        noise_var = start(started, some(_FEWEST_ROWS), noise_var)
    elif given is None and spec.start != "given":
        few, weight = setup.subsample()
        refined, rough = spec.start == "optimum", rough and spec.is_flat
        is_large = spec.is_flat and refined and len(few) > MOST_FIXED_INDUCING
        rows = some(_FEW_ROWS) if is_large else ObservedRows(below.h[few], latent[:, few], weight)
        noise_var = start_hyperparameters(
            started, *rows[:3], INITIAL_NOISE, refined=refined, rough=rough
        )
        if is_large:
            noise_var = go_on(started, some(_MORE_ROWS), noise_var)
    if not is_fitted and noise_var.max() > _LITTLE_NOISE:
        return top, None
    copies = setup.n_data / float(setup.weight.sum())
    start_posterior(started, below.h, latent, setup.observed_weight, noise_var, copies)
    return started, noise_var
