"""Optimisers of models."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from skgp.core.layers.posteriors import Covariance, NaturalPosterior
from skgp.core.layers.sparse import SparseLayer
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.objectives.objective import Objective
from skgp.core.training.optimizers import Adam, NaturalGradient, Optimizer, trainable
from skgp.fitting.model import Model
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.spec import FEW_INDUCING

# A natural step on one batch can put q(u) far from what suits the next, whose gradients are then a
# hundred times as large. With the usual memory of a thousand steps, which is most of a fit, noise
# and kernel would hardly move any more.
_SECOND_MOMENT_DECAY: Final = 0.95

# Where targets have little noise, gradients now and then grow a hundredfold: within one step, by
# which the next batch is far less likely, or within tens. With the usual memory the steps that lead
# there are too long, and those of a thousand after it are a small part of the rate.
_BATCHES_DECAY: Final = 0.99
_USUAL_DECAY: Final = 0.999

# Standard deviation of the noise, in units of that of the targets, that the usual rates suit.
_USUAL_STD: Final = 0.1

MakeOptimizer = Callable[[float, Model, float, int], Optimizer]


def adam(learning_rate: float, model: Model, n_data: float, n_batches: int) -> Optimizer:
    """Adam for all parameters."""
    return _adam(learning_rate, model, _USUAL_DECAY)


def batches_adam(learning_rate: float, model: Model, n_data: float, n_batches: int) -> Optimizer:
    """Adam with a shorter memory where there are several batches."""
    return _adam(learning_rate, model, _BATCHES_DECAY if n_batches > 1 else _USUAL_DECAY)


def _share_of_rate(
    initial_noise: float | None, model: Model, n_batches: int, prior_std: float = 1.0
) -> float:
    """Share of the usual rate that suits the noise of a data set of one batch.

    The start is an optimum, unless a user has chosen its noise, and as close to the targets as
    their noise allows. Steps that move a function by more than a part of the standard deviation of
    the noise leave it. They move it in units of its prior standard deviation.
    """
    has_optimum = n_batches == 1 and initial_noise is None
    if not has_optimum or not isinstance(model.likelihood, Gaussian):
        return 1.0
    log_var = model.likelihood.noise_var.detach().log().mean()  # geometric, over the outputs
    return min(1.0, math.exp(0.5 * float(log_var)) / (_USUAL_STD * prior_std))


def rate_after_fit(
    n_optimal: float, initial_noise: float | None, model: Model, n_fitted: float
) -> float:
    """Learning rate, relative to the usual one, in a stream that goes on from a fit.

    A fit of up to `n_optimal` rows is at an optimum, and so is one in which each row is an inducing
    input. The rate falls with the noise, as in a fit, relative to the prior standard deviation if
    that is above one, and with the root of the number of such inducing inputs.
    """
    Z = model.stack.top.Z
    if n_fitted > n_optimal and Z.requires_grad:
        return 1.0
    share = 1.0 if Z.requires_grad else min(1.0, math.sqrt(FEW_INDUCING / Z.shape[-2]))
    prior_std = max(1.0, model.stack.top.kernel.variance.max().item()) ** 0.5
    return share * _share_of_rate(initial_noise, model, 1, prior_std)


def adam_by_noise(
    initial_noise: float | None,
    learning_rate: float,
    model: Model,
    n_data: float,
    n_batches: int,
) -> Optimizer:
    """`batches_adam` with a share of the usual rate."""
    rate = learning_rate * _share_of_rate(initial_noise, model, n_batches)
    return batches_adam(rate, model, n_data, n_batches)


def adam_by_noise_and_sizes(
    initial_noise: float | None,
    learning_rate: float,
    model: Model,
    n_data: float,
    n_batches: int,
) -> Optimizer:
    """`adam_by_noise`, with shorter steps too where the top layer is larger than the first one.

    A step moves a function by up to the rate times |a|_1, which grows with the root of the number
    of inducing inputs M, and the start of a layer with many of them is close to where it is to go.
    """
    layers = cast(SparseLayer, model.stack.bottom), cast(SparseLayer, model.stack.top)
    n_first, n_top = (layer.Z.shape[-2] for layer in layers)
    share = min(math.sqrt(n_first / n_top), _share_of_rate(initial_noise, model, n_batches))
    return batches_adam(learning_rate * share, model, n_data, n_batches)


def natural_gradients(
    learning_rate: float,
    peak: float,
    beta_reg: DivergenceWeight,
    model: Model,
    n_data: float,
    n_batches: int,
) -> Optimizer:
    """Natural-gradient steps for q(u) of the last layer, and Adam for everything else.

    `learning_rate` is that of Adam, `peak` that of natural steps; 1 forgets all earlier batches.
    """
    natural = [m for m in model.modules() if isinstance(m, NaturalPosterior)]
    others = trainable(model, (p for posterior in natural for p in posterior.parameters()))
    # A step of length rho multiplies the old precision by 1 - rho beta_reg.
    rate = peak / max(1.0, beta_reg(model, n_data))
    rest = Adam(others, learning_rate, _SECOND_MOMENT_DECAY)
    likelihood = cast(Gaussian, model.likelihood)
    # Steps up to 1 / coupling converge while mixing and noise stay; Adam moves these.
    return NaturalGradient(natural, rate, n_data, rest, lambda: rate / likelihood.coupling())


def natural_or_adam(
    estimator: Any,
    objective: Objective,
    beta_reg: DivergenceWeight,
    peak: float = 0.5,
    make_adam: MakeOptimizer = adam,
) -> tuple[Covariance, Callable[[Model, float, int], Optimizer]]:
    """Parametrisation of q(u), and its optimiser, as the parameter `optimizer` says.

    `estimator` has the parameters covariance, optimizer and learning_rate_init; `peak` is
    that of `natural_gradients`, `make_adam` what the name "adam" stands for.

    Raises
    ------
    ValueError
        If natural gradients cannot move this covariance, or not for this objective.
    """
    if estimator.optimizer != "natgrad":
        return estimator.covariance, partial(make_adam, estimator.learning_rate_init)
    if objective.draws_top or not Gaussian.is_quadratic(objective.term):
        model = type(estimator).__name__
        model += " with gamma" if getattr(estimator, "gamma", None) else ""
        model += f" with inference={estimator.inference!r}" if objective.draws_top else ""
        raise ValueError(
            "optimizer='natgrad' needs an objective that is quadratic in u, and that of "
            f"{model} is not: natural-gradient steps could leave q(u) without a covariance; "
            "use optimizer='adam'"
        )
    if estimator.covariance != "full":
        raise ValueError(
            "optimizer='natgrad' moves a full covariance: use covariance='full' or "
            f"optimizer='adam', got covariance={estimator.covariance!r}"
        )
    return "natural", partial(natural_gradients, estimator.learning_rate_init, peak, beta_reg)


def _adam(learning_rate: float, model: Model, second_moment_decay: float) -> Optimizer:
    parameters = trainable(model)
    return Adam(parameters, learning_rate, second_moment_decay)
