"""Recipes of the stacks, from an estimator's parameters and what its family chooses."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from skgp.core.kernels.choice import layer_kernels
from skgp.core.kernels.kernel import KernelLike
from skgp.core.layers.posteriors import Covariance
from skgp.core.marginal.starts import start_hyperparameters
from skgp.core.numerics.elementwise import Passes
from skgp.core.objectives.objective import Objective
from skgp.core.training.optimizers import Optimizer
from skgp.fitting.model import Model
from skgp.fitting.recipe import (
    Epochs,
    Minibatch,
    Recipe,
    Stopping,
    float64_if_one_batch,
    minibatch_plan,
    no_stream_if_stopping,
    pick,
)
from skgp.fitting.setup import Setup
from skgp.recipes.hidden import HiddenLayers, MakeNodes, hidden_gps
from skgp.recipes.losses import DivergenceWeight, stack_loss, stack_repeats
from skgp.recipes.optimizers import adam
from skgp.recipes.sizes import build_for_folds, build_larger, build_rival
from skgp.recipes.stack import (
    CERTAIN_VAR,
    USUAL_BEGINNING,
    Beginning,
    Features,
    Inducing,
    MakeBelow,
    Outputs,
    StackSpec,
    Start,
    Top,
    build_stack,
    move_inducing,
    no_hidden,
    sparse_top,
)
from skgp.recipes.warping import Warping

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
    p: Any,
    *,
    objective: Objective,
    outputs: Callable[[StackSpec, Setup], Outputs],
    kernels: Sequence[KernelLike] | None = None,
    below: MakeBelow = no_hidden,
    top: Top = sparse_top,
    covariance: Covariance | None = None,
    warping: Warping | None = None,
    shares_kernel: bool | Literal["auto"] = False,
    pulled: bool = False,
    misfit: Callable[[int, int], str | None] | None = None,
    beta_reg: DivergenceWeight | None = None,
    optimizer: Callable[[Model, float, int], Optimizer] | None = None,
    epochs: Epochs = STACK_EPOCHS,
    start: Start = start_hyperparameters,
    beginning: Beginning = USUAL_BEGINNING,
    all_inducing: int = 0,
) -> Recipe:
    """The recipe of a stack of layers that is trained by minibatches.

    Parameters
    ----------
    p : estimator
        With the parameters of `Inducing`, `Features`, `Minibatch` and `Stopping`.
    objective : Objective
    outputs, kernels, below, top, covariance, warping, shares_kernel, pulled, misfit, start, \
beginning, all_inducing
        As of `StackSpec`; kernels and covariance are the estimator's if None.
    beta_reg : DivergenceWeight, optional
        The estimator's if None.
    optimizer : callable (Model, n_data, n_batches) -> Optimizer, optional
        Adam if None.
    epochs : Epochs
    """
    beta_reg = DivergenceWeight(p.beta_reg) if beta_reg is None else beta_reg
    features = pick(Features, p)
    spec = StackSpec(
        kernels=(p.kernel,) if kernels is None else tuple(kernels),
        inducing=pick(Inducing, p),
        covariance=p.covariance if covariance is None else covariance,
        batch_size=p.batch_size,
        outputs=outputs,
        below=below,
        top=top,
        features=features,
        warping=warping,
        shares_kernel=shares_kernel,
        pulled=pulled,
        misfit=misfit,
        start=start,
        beginning=beginning,
        all_inducing=all_inducing,
    )
    finds_inducing = spec.inducing.n_inducing == "auto"
    return Recipe(
        build=partial(build_stack, spec),
        loss=partial(stack_loss, objective, beta_reg, features.weight_decay),
        optimizer=partial(adam, p.learning_rate_init) if optimizer is None else optimizer,
        plan=partial(minibatch_plan, pick(Minibatch, p), pick(Stopping, p), epochs),
        dtype=partial(float64_if_one_batch, p.batch_size),
        prepare_to_stream=move_inducing,
        why_no_stream=no_stream_if_stopping(p),
        divergence=beta_reg,
        passes=Passes(p.compile),
        repeats=stack_repeats,
        build_for_folds=partial(build_for_folds, spec) if finds_inducing else None,
        build_larger=partial(build_larger, spec) if finds_inducing else None,
        build_rival=partial(build_rival, spec) if finds_inducing else None,
    )


def deep_recipe(
    p: Any,
    *,
    objective: Objective,
    outputs: Callable[[StackSpec, Setup], Outputs],
    nodes: MakeNodes,
    alone: MakeBelow = no_hidden,
    top: Top = sparse_top,
    variance: float = CERTAIN_VAR,
    warping: Warping | None = None,
    shares_kernel: bool | Literal["auto"] = False,
    pulled: bool = False,
    covariance: Covariance | None = None,
    beta_reg: DivergenceWeight | None = None,
    optimizer: Callable[[Model, float, int], Optimizer] | None = None,
    epochs: Epochs = DEEP_EPOCHS,
    start: Start = start_hyperparameters,
    beginning: Beginning = USUAL_BEGINNING,
) -> Recipe:
    """The recipe of an estimator with the parameters of `HiddenLayers`.

    Parameters as of `stack_recipe`, and these:

    Parameters
    ----------
    nodes : callable (Setup, widths) -> NodeRule
    alone : callable (StackSpec, Setup, Tensor) -> Below
        What stands below the top layer if it is the only one.
    variance : float
        Where the variances of q(v) of hidden functions start.
    """
    kernels = layer_kernels(p.kernel, p.n_layers)
    layers = pick(HiddenLayers, p)
    return stack_recipe(
        p,
        objective=objective,
        outputs=outputs,
        kernels=kernels,
        below=partial(hidden_gps, layers, variance, nodes, alone),
        top=top,
        warping=warping,
        shares_kernel=shares_kernel,
        pulled=pulled,
        misfit=layers.misfit,
        covariance=covariance,
        beta_reg=beta_reg,
        optimizer=optimizer,
        epochs=epochs,
        start=start,
        beginning=beginning,
    )
