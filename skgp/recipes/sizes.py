"""Builds of a stack like a model, with other numbers of inducing inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast, final

from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.sparse import SparseLayer
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.networks.warping import InputWarp
from skgp.fitting.model import Model
from skgp.fitting.recipe import as_trained
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table
from skgp.recipes.laplace import with_laplace_draws
from skgp.recipes.spec import ALL_INDUCING, MANY_INDUCING, MOST_UNTRAINED_INDUCING, StackSpec
from skgp.recipes.stack import build_stack

_ALL_ROWS: Final = 2**62
_MOST_UNTRAINED_ROWS: Final = 20_000  # with different inputs
_MOST_CLASSIFIED: Final = 5000  # the same of a classifier
_MOST_UNCERTAIN: Final = 650  # inputs; of more, hyper-parameters are as good as certain
# Of a GP of so many that not all are inducing inputs. With 3,000 it takes twice the time.
_MANY_UNTRAINED: Final = 2000

Build = Callable[[Setup], Model]


@final
@dataclass(frozen=True)
class FoundSizes:
    """Other sizes of a stack whose numbers of inducing inputs are found: `fitting.recipe.Sizes`.

    Attributes
    ----------
    spec : StackSpec
    """

    spec: StackSpec

    def like(self, model: Model) -> Build:
        """The build of models with as many inducing inputs in each layer as this one has."""
        return self._build(model, _n_inducing(model))

    def larger(self, model: Model, n_distinct: int) -> Build | None:
        """The build of a model whose top layer has an inducing input for each distinct input.

        None if this model has so many, if there are too many, if the top layer begins at an optimum
        anyway, or if its GPs share inducing inputs.
        """
        *hidden, n_top = _n_inducing(model)
        is_done = self.spec.starts_at_optimum or model.stack.top.is_shared
        if is_done or not n_top < n_distinct <= ALL_INDUCING:
            return None
        return self._build(model, [*hidden, ALL_INDUCING])

    def untrained_gp(self, model: Model, n_distinct: int) -> Build | None:
        """The build of a model that predicts well as it begins, with flat hidden layers.

        It is a GP of all distinct inputs; of many it has 2,000 inducing inputs, and q(u) at its
        optimum. A classifier of one function has 300. None if there are too many inputs, or if q(u)
        is a point or has two bases.
        """
        spec = self.spec
        *hidden, _ = _n_inducing(model)
        n_top = self._most_untrained(model, n_distinct)
        if n_top is None or spec.covariance not in ("full", "diagonal", "natural"):
            return None
        covariance: Covariance = "full" if spec.covariance == "diagonal" else spec.covariance
        # All rows are one batch of it, for it is not trained.
        whole = replace(spec, is_flat=True, covariance=covariance, batch_size=_ALL_ROWS)
        if spec.start == "descent":  # classes settle from anywhere
            whole = replace(whole, start="given")
        return FoundSizes(whole)._build(model, [*hidden, n_top])

    def _most_untrained(self, model: Model, n_distinct: int) -> int | None:
        """The most inducing inputs of the top layer of an untrained GP; None if there is none."""
        if isinstance(model.likelihood, ClassLikelihood):
            has_one = model.likelihood.n_latents == 1
            return MANY_INDUCING if has_one and n_distinct <= _MOST_CLASSIFIED else None
        is_apt = self.spec.start == "optimum" and self.spec.initial_values.initial_noise is None
        if not is_apt or len(model.stack.top.kernel.variance) > 1:
            return None
        if n_distinct > _MOST_UNTRAINED_ROWS:
            return None
        return MOST_UNTRAINED_INDUCING if n_distinct <= MOST_UNTRAINED_INDUCING else _MANY_UNTRAINED

    def conditioned(self, n_distinct: int) -> Callable[[Model, Table], Model]:
        """From an untrained GP to what predicts: of few inputs, an average over hyper-parameters.

        Also where a model of a part of the rows is scored, so that both are alike.
        """
        is_uncertain = self.spec.start == "optimum" and n_distinct <= _MOST_UNCERTAIN
        return with_laplace_draws if is_uncertain else as_trained

    def _build(self, model: Model, n_inducing: int | Sequence[int]) -> Build:
        """The build of the stack with so many inducing inputs in its layers.

        It transforms skewed inputs if the model does. Whether that is worth it may depend on the
        inducing inputs of two rough GPs, and models that are compared should not differ in that,
        nor in the lengthscales that a GP of all inputs starts from, which take long to find.
        """
        inducing = replace(self.spec.inducing, n_inducing=n_inducing)
        spec = replace(self.spec, inducing=inducing, is_rough=model.is_rough)
        if spec.warping is not None:
            is_warped = isinstance(model.stack.features, InputWarp)
            spec = replace(spec, warping=replace(spec.warping, input_warping=is_warped))
        return partial(build_stack, spec)


def _n_inducing(model: Model) -> list[int]:
    """Inducing inputs of the layers, from the inputs upwards."""
    return [cast(SparseLayer, layer).Z.shape[-2] for layer in model.stack.layers]
