"""Builds of a stack like a model, with other numbers of inducing inputs where these are found."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.networks.warping import InputWarp
from skgp.fitting.model import Model
from skgp.fitting.setup import Setup
from skgp.recipes.stack import ALL_INDUCING, MOST_ROWS, StackSpec, build_stack, refined_start

Build = Callable[[Setup], Model]


def build_for_folds(spec: StackSpec, model: Model) -> Build:
    """The build of a model with as many inducing inputs in each layer as this model has."""
    return partial(build_stack, _like(model, spec, _n_inducing(model)))


def build_larger(spec: StackSpec, model: Model, n_distinct: int) -> Build | None:
    """The build of a model whose top layer has an inducing input for each distinct input.

    None if this model has so many, if there are too many, if the top layer begins at an optimum
    anyway, or if its GPs share inducing inputs.
    """
    *hidden, n_top = _n_inducing(model)
    if spec.begins_well or model.stack.top.is_shared or not n_top < n_distinct <= ALL_INDUCING:
        return None
    return partial(build_stack, _like(model, spec, [*hidden, ALL_INDUCING]))


def build_rival(spec: StackSpec, model: Model, n_distinct: int) -> Build | None:
    """The build of a model that begins as a GP of all distinct inputs, with flat hidden layers.

    None if this model has so many inducing inputs, if there are too many, or if q(u) is a point.
    """
    *hidden, n_top = _n_inducing(model)
    is_apt = spec.start is refined_start and spec.beginning.initial_noise is None
    is_plain = type(model.stack.top) is SparseGP and spec.covariance != "delta"
    if not (is_apt and is_plain) or len(model.stack.top.kernel.variance) > 1:
        return None
    if not n_top < n_distinct <= MOST_ROWS:
        return None
    covariance: Covariance = "full" if spec.covariance == "diagonal" else spec.covariance
    spec = replace(spec, is_flat=True, covariance=covariance)
    return partial(build_stack, _like(model, spec, [*hidden, MOST_ROWS]))


def _n_inducing(model: Model) -> list[int]:
    """Inducing inputs of the layers, from the inputs upwards."""
    return [cast(SparseLayer, layer).Z.shape[-2] for layer in model.stack.layers]


def _like(model: Model, spec: StackSpec, n_inducing: int | Sequence[int]) -> StackSpec:
    """The stack with so many inducing inputs in its layers.

    It has transforms of skewed inputs if the model has some. Whether they are worth it may depend
    on the inducing inputs of two rough GPs, and models that are compared should not differ in that.
    """
    spec = replace(spec, inducing=replace(spec.inducing, n_inducing=n_inducing))
    if spec.warping is None:
        return spec
    is_warped = isinstance(model.stack.features, InputWarp)
    return replace(spec, warping=replace(spec.warping, input_warping=is_warped))
