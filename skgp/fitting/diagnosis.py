"""What a fit says of itself at its end: one line for each fault, with its remedy."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning

from skgp._typing import Array
from skgp.core.bulk import are_narrow, gap, spread
from skgp.core.layers.layer import total_moments
from skgp.core.likelihoods.censored import Censored
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.likelihoods.counts import Counts
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.student_t import StudentT
from skgp.core.networks.warping import InputWarp
from skgp.core.training.history import History
from skgp.core.training.plan import Plan
from skgp.core.training.schedules import Schedule, constant
from skgp.exceptions import (
    FitQualityWarning,
    InterruptedFitWarning,
    NonFiniteLossError,
    NotPositiveDefiniteError,
)
from skgp.fitting.coverage import LEVEL, Coverage, predictions
from skgp.fitting.model import Layers, Model
from skgp.fitting.search import Search
from skgp.fitting.table import Scale, Table, scale_inputs

_RISE: Final = 0.5  # nats per output that a loss may end above its lowest value, or a normal's
_RISE_OF_CLASSES: Final = 0.2  # the same of class labels, whose losses are below log C
_FALL: Final = 0.1  # nats per output between the third and the last quarter of a fit
_MANY_STEPS: Final = 100  # steps for which that is fast
# Between these floors; beyond them it is the user who says how little noise there is.
_LEAST_FLOOR: Final = 1e-6
_LARGEST_FLOOR: Final = 1e-3
_AT_FLOOR: Final = 2.0  # times the floor: a noise variance up to here is at its floor
_AT_FLOOR_IN_ALL: Final = 4.0  # the same of a predictive variance
_TOLERATED: Final = 0.05  # share of targets by which it may be off
_SURE: Final = 1e-3  # probability of a coverage beyond that by chance
_LIGHT: Final = 0.05  # mean weight of a row below which a user may have meant another one
_FEW_LIGHT: Final = 20  # rows up to which it is not judged
_MANY_ROWS: Final = 1_000_000  # whose scales are compared at most
_FIRST_ROWS: Final = 100  # of a step, from which the loss of the first one counts
_FEW: Final = 1000  # training rows whose predictive variance is looked at
_LARGEST_RATIO: Final = 100.0  # of standard deviations of inputs, or of their median to one
# Interquartile ranges of scaled values: below these, kernels start with next to no difference among
# the values, or normal noise is as wide as all of them.
_HIDDEN_INPUTS: Final = 0.1
_HIDDEN_TARGETS: Final = 0.02
_GAP: Final = 100.0  # between near and far inputs, as a ratio of distances: tails have none
_ENOUGH: Final = 10_000  # rows that show whether a column is narrow

_REMEDIES: Final = {  # against a loss that is not finite: parameters, of those that there are
    "keep {} on": ("normalize_X", "normalize_y"),
    "lower {}": ("step_size", "learning_rate_init"),
    "raise {}": ("jitter", "noise_floor"),
}


def diagnose(
    model: Model,
    history: History,
    plan: Plan,
    table: Table,
    coverage: Coverage,
    search: Search,
    parameters: Mapping[str, Any],
) -> list[Warning]:
    """Warnings of a fit that has ended.

    Parameters
    ----------
    model : Model
        Fitted.
    history : History
    plan : Plan
    table : Table
        Training rows.
    coverage : Coverage
        Of held-out rows.
    search : Search
    parameters : dict
        Those of the estimator, of which the remedies speak.
    """
    if history.interrupted:
        n_done = len(history.loss_curve)
        return [
            InterruptedFitWarning(
                f"the fit was interrupted after {n_done} of {plan.n_epochs} epochs; the estimator "
                "holds the state of the last completed one: use it, or fit again"
            )
        ]
    # Nobody scales the inputs of an embedding, and a network of the user those of the kernel.
    has_own = model.inputs is not None or callable(parameters.get("feature_extractor"))
    unscaled = [] if has_own else _unscaled_inputs(table)
    hidden = [*_light_rows(table), *([] if has_own else hidden_values(model, table))]
    diverged = _divergence(model, history, plan, table, parameters)
    if diverged:  # of which noise and coverage say nothing new
        return [*unscaled, *hidden, *diverged]
    of_length = _length(history, plan, table, search, parameters)
    width = [*_noise_floor(model, table), *_calibration(coverage, parameters)]
    return [*unscaled, *hidden, *of_length, *width]


def _divergence(
    model: Model, history: History, plan: Plan, table: Table, parameters: Mapping[str, Any]
) -> list[Warning]:
    """Whether the loss ended above where it has been, or above that of a model without inputs."""
    curve = history.loss_curve
    # With early stopping the model is that of the best score.
    if plan.n_iter_no_change is not None and history.validation_scores:
        curve = curve[: int(np.argmax(history.validation_scores)) + 1]
    # Where each step sees all rows, training that may go back ends near the lowest loss.
    elif plan.n_retreats and plan.n_batches(table.n_rows) == 1:
        curve = curve[: int(np.argmin(curve)) + 1]
    last, lowest = curve[-1], min(curve)
    # Training may diverge within its first epoch. With annealing the first step has no divergence.
    if not parameters.get("kl_annealing") and len(table) >= _FIRST_ROWS * plan.n_batches(
        len(table)
    ):
        lowest = min(lowest, history.first_loss)
    # The divergence is divided by the sum of the weights, which may be far below one per row.
    has_classes = isinstance(model.likelihood, ClassLikelihood)
    margin = _RISE_OF_CLASSES if has_classes else _RISE
    margin *= max(float(table.n_outputs), len(table) / table.n_data)
    is_chain = "step_size" in parameters  # which leaves the maximum, where it starts, for good
    rate = "step_size" if is_chain else "learning_rate_init"
    if last > lowest + margin and not is_chain:
        return [
            ConvergenceWarning(
                f"training diverged: the loss ended at {last:.3g} after {lowest:.3g}; lower {rate}"
            )
        ]
    if has_classes or isinstance(model.likelihood, Counts | Censored | StudentT):
        return []  # no normal is their measure
    # Not the loss, whose divergence can be many nats per row of a small table.
    rows = _some_rows(model, table)
    density = model.mean_log_density(rows) + rows.mean_log_unit
    variances = _variances(table) + rows.scaled_noise(slice(None))
    of_entries = ~np.isnan(rows.Y) * np.log(2.0 * np.pi * np.e * variances)
    normal = -0.5 * np.average(of_entries.sum(1), weights=rows.sample_weight)
    if density >= normal - _RISE * table.n_outputs:
        return []
    remedy = f"set {_scaling(model)}=True"
    if table.y_scale.enabled:
        has_rate = rate in parameters
        remedy = f"lower {rate} or raise max_iter" if has_rate else "raise max_iter"
    return [
        ConvergenceWarning(
            f"training failed: the mean log density of training rows is {density:.3g}, and a "
            f"normal distribution without inputs has {normal:.3g}; {remedy}"
        )
    ]


def _length(
    history: History, plan: Plan, table: Table, search: Search, parameters: Mapping[str, Any]
) -> list[Warning]:
    """Whether training should have been longer."""
    fast = _FALL * table.n_outputs
    if plan.n_folds:
        rise = _last_fall([-score for score in search.scores], constant) if search.scores else 0.0
        if len(search.scores) < search.limit or rise <= fast:
            return []
        return [
            ConvergenceWarning(
                f"the search for the number of epochs ended at its limit of {search.limit} with "
                f"held-out scores still rising; set max_iter to a larger number"
            )
        ]
    curve = history.loss_curve
    # A number that "auto" chose is not for the user to raise, and a fit may stop by itself.
    if parameters.get("max_iter") == "auto" or len(curve) < plan.n_epochs:
        return []
    # Few steps cannot lower a loss by much: from them the pace counts.
    n_steps = len(curve) * plan.n_batches(len(table))
    fall = _last_fall(curve, plan.schedule)
    if fall <= fast * min(1.0, n_steps / _MANY_STEPS):
        return []
    return [
        ConvergenceWarning(
            f"the loss was still falling after max_iter={plan.n_epochs} epochs, by {fall:.2g} "
            "over the last quarter of the way; raise max_iter"
        )
    ]


def _last_fall(curve: list[float], schedule: Schedule) -> float:
    """How much lower a curve is in the last quarter of its way than in the third.

    The way is the sum of the rates: so the end of a cycle, where steps are short and every loss
    falls as the noise of the steps does, is a small part of it.
    """
    n = len(curve)
    # Where everything rests there is no way, so a rate is above zero.
    rate = np.array([max(schedule((epoch + 0.5) / n), 1e-6) for epoch in range(n)])
    way = np.concatenate([[0.0], rate.cumsum() / rate.sum()])
    area = np.concatenate([[0.0], (rate * curve).cumsum() / rate.sum()])
    third, last = 4.0 * np.diff(np.interp([0.5, 0.75, 1.0], way, area))
    return float(third - last)


def _noise_floor(model: Model, table: Table) -> list[Warning]:
    """Whether the floor of the noise variance decides how certain predictions are."""
    likelihood = model.likelihood
    if not isinstance(likelihood, Gaussian):
        return []
    floor = likelihood.noise_floor
    if not _LEAST_FLOOR < floor <= _LARGEST_FLOOR:
        return []
    is_low = (likelihood.noise_var <= _AT_FLOOR * floor).cpu().numpy()
    is_low &= np.fmin.reduce(table.Y) < np.fmax.reduce(table.Y)  # a constant needs no noise
    # Where the variance of the functions is larger, the floor decides nothing.
    if is_low.any():
        is_low &= _typical_variance(model, _some_rows(model, table)) <= _AT_FLOOR_IN_ALL * floor
    if not is_low.any():
        return []
    remedy = (
        "if y has no noise, lower noise_floor; if it is rounded, raise it; "
        "if a column of X reveals y, drop it; else add rows"
    )
    if model.inputs is not None:  # nothing can give the columns away
        remedy = "if X has no noise, lower noise_floor; if it is rounded, raise it"
    if not table.y_scale.enabled:
        scaling = _scaling(model)
        remedy = f"it is in units of {scaling[-1]} unless {scaling}=True"
    return [
        FitQualityWarning(
            f"the noise variance ended at noise_floor={floor:g}, which sets the width of "
            f"intervals: {remedy}"
        )
    ]


@torch.no_grad()
def _typical_variance(model: Model, rows: Table) -> Array:
    """Median over rows of the predictive variance of each output, (P,), in scaled units."""
    variances = []
    for predictive, weights, *_ in predictions(model, rows):
        variances.append(total_moments(predictive.mean, predictive.var, weights)[1])
    return np.asarray(torch.cat(variances).median(0).values.cpu().numpy())


def _calibration(coverage: Coverage, parameters: Mapping[str, Any]) -> list[Warning]:
    """Whether the intervals of held-out rows hold fewer or more targets than chance explains."""
    if not coverage.n_targets:
        return []
    share = coverage.inside / coverage.total
    n = round(coverage.rows**2 / coverage.squares)  # rows of equal weights that are as certain
    least, most = np.asarray(binom.ppf([_SURE, 1.0 - _SURE], n, LEVEL)) / n
    if least - _TOLERATED <= share <= most + _TOLERATED:
        return []
    by_weight = "" if coverage.rows == coverage.squares else ", by weight,"
    too, further = "narrow", ", or raise beta_reg" if "beta_reg" in parameters else ""
    if share > LEVEL:  # gamma belongs to variational bounds
        varying = ", or PPGPRRegressor if the noise varies with X"
        too, further = "wide", varying if "gamma" in parameters else ""
    return [
        FitQualityWarning(
            f"{share:.0%} of {coverage.n_targets:.0f} held-out entries of y{by_weight} lie in "
            f"their central 90 % intervals, which are too {too}: use CrossFittedRegressor with "
            f"recalibrate=True"
            f"{further}"
        )
    ]


def _unscaled_inputs(table: Table) -> list[Warning]:
    """Whether inputs that the estimator does not scale differ too much in scale."""
    if table.x_scale.enabled:
        return []
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers beyond the root of the largest
        some = table.X[:: math.ceil(len(table) / _MANY_ROWS)]
        deviations = np.asarray(some, dtype=float).std(axis=0)
    deviations = deviations[deviations != 0.0]
    if not len(deviations):
        return []
    low, high, middle = deviations.min(), deviations.max(), float(np.median(deviations))
    if high <= _LARGEST_RATIO * low and 1.0 <= _LARGEST_RATIO * middle <= _LARGEST_RATIO**2:
        return []
    return [
        FitQualityWarning(
            f"with normalize_X=False the columns of X have standard deviations of {low:.2g} to "
            f"{high:.2g}, and lengthscales start as if all had 1: set normalize_X=True"
        )
    ]


def _light_rows(table: Table) -> list[Warning]:
    """Whether the weights make next to nothing of many rows."""
    total = table.n_data
    if table.n_rows < _FEW_LIGHT or total >= _LIGHT * table.n_rows:
        return []
    return [
        FitQualityWarning(
            f"sample_weight sums to {total:.3g}, so all rows together count as {total:.3g}: "
            "pass weights with a mean of 1 if they only say how rows compare"
        )
    ]


def hidden_values(model: Model, table: Table) -> list[Warning]:
    """Whether a few values of X, or of y under normal noise, hide the others."""
    every = math.ceil(len(table) / _ENOUGH)
    warnings: list[Warning] = []
    seen_by_kernel = _seen_by_kernel(model, table, every)
    if seen_by_kernel is not None:
        remedy = "the others look equal to the model; correct these, or drop their rows"
        hidden = are_narrow(seen_by_kernel, _HIDDEN_INPUTS)
        hidden[hidden] = [gap(table.X[:, j]) > _GAP for j in np.flatnonzero(hidden)]
        warnings += _hidden("X", table.X, table.x_scale, hidden, remedy)
    if isinstance(model.likelihood, Gaussian) and table.y_scale.enabled:
        remedy = (
            "if errors, use SVGPRegressor(likelihood='student_t'); "
            "if y is skewed, TransformedTargetRegressor"
        )
        hidden = are_narrow(table.y_scale.apply(table.Y[::every]), _HIDDEN_TARGETS)
        warnings += _hidden("y", table.Y, table.y_scale, hidden, remedy)
    return warnings


@torch.no_grad()
def _seen_by_kernel(model: Model, table: Table, every: int) -> Array | None:
    """Some rows of scaled inputs, transformed if they are; None where a network is between."""
    if not table.x_scale.enabled or not isinstance(model.source, Layers):
        return None
    stack = model.source.stack
    if stack.has_features and not isinstance(stack.features, InputWarp):
        return None
    x = torch.from_numpy(scale_inputs(table.X[::every], table.x_scale))
    h: Array = stack.features(x.to(model.log_weights.device)).cpu().numpy()
    return h


def _hidden(name: str, values: Array, scale: Scale, hidden: Array, remedy: str) -> list[Warning]:
    """At most one warning, of the first of the hidden columns (d,)."""
    if not hidden.any():
        return []
    j = int(np.argmax(hidden))
    width, farthest = spread(values[:, j])
    which = f"column {j} of {name}" if values.shape[1] > 1 else name
    return [
        FitQualityWarning(
            f"half of {which} lies within {width:.2g}, but a few values, such as "
            f"{farthest:.6g}, raise its standard deviation to {scale.unit[j]:.2g}: {remedy}"
        )
    ]


def _scaling(model: Model) -> str:
    """The parameter that says whether targets are scaled; those of an embedding are its X."""
    return "normalize_y" if model.inputs is None else "normalize_X"


def _some_rows(model: Model, table: Table) -> Table:
    """At most a thousand rows, in the arithmetic of a fitted model."""
    index = np.linspace(0, len(table) - 1, min(len(table), _FEW)).astype(int)
    rows = table.rows
    if model.inputs is not None:  # nobody observed them, and the table holds where they started
        X = model.inputs.posterior.of_rows(slice(None)).mean.detach().cpu().numpy()
        rows = rows._replace(X=X)
    return Table(rows.take(index), table.x_scale, table.y_scale, model.log_weights)


def _variances(table: Table) -> Array:
    """Of the scaled targets, (P,); one if an output is constant or never observed."""
    if table.y_scale.enabled:
        return np.ones(table.n_outputs)
    Y, seen = np.nan_to_num(table.Y), ~np.isnan(table.Y)
    weight = seen if table.sample_weight is None else seen * table.sample_weight[:, np.newaxis]
    share = weight / np.fmax(weight.sum(axis=0), np.finfo(float).tiny)
    variances = (share * np.square(Y - (share * Y).sum(axis=0))).sum(axis=0)
    varies = np.fmin.reduce(table.Y) < np.fmax.reduce(table.Y)  # rounding gives others a variance
    return np.asarray(np.where(varies & (variances > 0.0), variances, 1.0))


@contextmanager
def remedies(parameters: Mapping[str, Any]) -> Iterator[None]:
    """Tell a user whose fit diverges which of the estimator's parameters may help."""
    try:
        yield
    except NonFiniteLossError as error:
        present = {do: [n for n in names if n in parameters] for do, names in _REMEDIES.items()}
        advice = [do.format(" and ".join(names)) for do, names in present.items() if names]
        raise NonFiniteLossError(f"{error}; {', '.join(advice)}") from error
    except NotPositiveDefiniteError as error:
        # Of inputs as large as 1e9 rounding leaves no distances beside those of outliers.
        if parameters["normalize_X"]:
            raise
        raise NotPositiveDefiniteError(f"{error}; keep normalize_X on") from error
