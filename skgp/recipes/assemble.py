"""Recipes of the stacks, from an estimator's parameters and what its family chooses."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from skgp.core.numerics.elementwise import Passes
from skgp.core.objectives.objective import Objective
from skgp.core.training.optimizers import Optimizer
from skgp.fitting.model import Model
from skgp.fitting.plans import Epochs, Minibatch, Stopping, minibatch_plan
from skgp.fitting.recipe import (
    Recipe,
    float64_if_one_batch,
    full_rate,
    no_stream_if_stopping,
    pick,
)
from skgp.recipes.losses import DivergenceWeight, stack_loss, stack_repeats
from skgp.recipes.optimizers import adam, rate_after_fit
from skgp.recipes.sizes import FoundSizes
from skgp.recipes.spec import StackSpec
from skgp.recipes.stack import build_stack

STACK_EPOCHS: Final = Epochs()
DEEP_EPOCHS: Final = Epochs(most_steps=2000)
LONGEST: Final = 400  # epochs of a cross-validation
# With more steps the inducing inputs overfit.
SIGMA_POINT_EPOCHS: Final = Epochs(usual=40, least_steps=100, most_steps=2000, longest=LONGEST)
# The start is close to where the bound is high, and with more steps the probabilities overfit.
CLASS_EPOCHS: Final = Epochs(usual=30, least_steps=30)
# Not those of one function of many rows.
ONE_FUNCTION_EPOCHS: Final = replace(CLASS_EPOCHS, least_steps_of_many=300)
PREDICTIVE_EPOCHS: Final = Epochs(longest=LONGEST)
LONGER_STEPS: Final = 3.0  # relative rate of regressors that are averages; classifiers lose


def stack_recipe(
    estimator: Any,
    spec: StackSpec,
    *,
    objective: Objective,
    beta_reg: DivergenceWeight | None = None,
    optimizer: Callable[[Model, float, int], Optimizer] | None = None,
    epochs: Epochs = STACK_EPOCHS,
) -> Recipe:
    """The recipe of a stack of layers that is trained by minibatches.

    Parameters
    ----------
    estimator : estimator
        With the parameters of `Minibatch` and `Stopping`.
    spec : StackSpec
    objective : Objective
    beta_reg : DivergenceWeight, optional
        The estimator's if None.
    optimizer : callable (Model, n_data, n_batches) -> Optimizer, optional
        Adam if None.
    epochs : Epochs
    """
    beta_reg = DivergenceWeight(estimator.beta_reg) if beta_reg is None else beta_reg
    one_batch = 1.5 * estimator.batch_size
    stream_rate = partial(rate_after_fit, one_batch, spec.initial_values.initial_noise)
    return Recipe(
        build=partial(build_stack, spec),
        loss=partial(stack_loss, objective, beta_reg, spec.features.weight_decay),
        optimizer=partial(adam, estimator.learning_rate_init) if optimizer is None else optimizer,
        plan=partial(minibatch_plan, pick(Minibatch, estimator), pick(Stopping, estimator), epochs),
        dtype=partial(float64_if_one_batch, estimator.batch_size),
        stream_rate=stream_rate if spec.starts_at_optimum else full_rate,
        why_no_stream=no_stream_if_stopping(estimator),
        divergence=beta_reg,
        passes=Passes(estimator.compile),
        repeats=stack_repeats,
        sizes=FoundSizes(spec) if spec.inducing.n_inducing == "auto" else None,
    )
