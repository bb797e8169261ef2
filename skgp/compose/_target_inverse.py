"""Distributions of a transformed target, brought back to the units of the target.

scikit-learn's target transformers are arbitrary code, so what they do is found by probing the
fitted `inverse_transform`: whether it acts on each output separately, whether it is affine, and
whether it increases over the range of the predictive distributions.
"""

import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import FunctionTransformer

from skgp._typing import FloatArray
from skgp.distributions import CountMixture, MonotoneTransformed, NormalMixture

_MAGNITUDES = 10.0 ** np.arange(-3, 10)
_PROBES = np.concatenate([-_MAGNITUDES, [0.0], _MAGNITUDES])
_RTOL = 1e-12
_MIXING_TOL = 1e-9
_RANGE_STDS = 9.0  # as far as MonotoneTransformed integrates at least
_RANGE_POINTS = 257
_FAR = 1e150  # stands for infinity, which transformers refuse; scaled it must not overflow


def invert_target(dist: Any, transformers: Sequence[Any]) -> Any:
    """Distribution of the target whose transformed value is distributed as `dist`.

    Parameters
    ----------
    dist : predictive distribution of shape (n,) or (n, P)
        Of the transformed target.
    transformers : sequence of fitted transformers
        Their `inverse_transform` is applied in this order, to arrays of shape (m, P).

    Returns
    -------
    predictive distribution of the shape of `dist`
        In the units of the target: exact if the inverse is affine, else a change of variables.

    Raises
    ------
    ValueError
        If the inverse mixes outputs, or, without being affine, is undefined or not increasing
        within 9 standard deviations of a predictive mean.
    TypeError
        If `dist` is not a mixture of normals, but a distribution that was transformed before, or
        one of counts.
    """
    n_outputs = 1 if len(dist.shape) == 1 else dist.shape[1]
    affine = _affine_coefficients(transformers, n_outputs)
    if affine is not None and hasattr(dist, "affine"):
        loc, scale = affine
        return dist.affine(loc, scale) if len(dist.shape) == 2 else dist.affine(loc[0], scale[0])
    if affine is not None and not np.any(affine[0]) and np.all(affine[1] == 1.0):
        return dist  # under the identity, of counts too
    if isinstance(dist, CountMixture):
        raise TypeError(
            f"{_names(transformers)} cannot transform a CountMixture: a likelihood of counts takes "
            "y as it is, so leave the transformer out"
        )
    if not isinstance(dist, NormalMixture):
        raise TypeError(
            f"{_names(transformers)} cannot transform a {type(dist).__name__}, only a "
            "NormalMixture: if targets are transformed twice, put both transformers around the "
            "innermost regressor."
        )
    centre = _check_increasing(dist, transformers, n_outputs)
    outwards, inwards = tuple(transformers), tuple(reversed(transformers))
    return MonotoneTransformed(
        dist,
        inverse_func=ColumnwiseMap("inverse_transform", outwards, centre),
        func=ColumnwiseMap(
            "transform", inwards, _run(outwards, "inverse_transform", centre[None])[0]
        ),
    )


def invert_draws(draws: FloatArray, transformers: Sequence[Any]) -> FloatArray:
    """Draws (n, S) or (n, P, S) of the target from those of the transformed one.

    Transformers as of `invert_target`; these may mix the outputs.
    """
    values = np.moveaxis(draws, -1, 0)
    if not values.size:  # which scikit-learn's transformers refuse
        return draws
    columns = values.reshape(-1, values.shape[2] if values.ndim == 3 else 1)
    mapped = _run(transformers, "inverse_transform", columns).reshape(values.shape)
    return np.moveaxis(mapped, 0, -1)


def is_affine(transformers: Sequence[Any], n_outputs: int) -> bool:
    """Whether the inverse of a chain of fitted transformers is affine in each output."""
    return _affine_coefficients(transformers, n_outputs) is not None


@final
@dataclass(frozen=True, eq=False)
class ColumnwiseMap:
    """One direction of a chain of target transformers, as a function of arrays of any length.

    Maps of different folds compare equal if they apply the same functions, so that their
    distributions can be concatenated.

    Attributes
    ----------
    method : {"transform", "inverse_transform"}
    steps : tuple of fitted transformers
        In the order of application.
    centre : ndarray of shape (P,)
        A value of each output that every step accepts.
    """

    method: str
    steps: tuple[Any, ...]
    centre: FloatArray

    @property
    def _identity(self) -> Hashable:
        # Of the steps as they are: those from another process are given other functions.
        return self.method, tuple(_key(step) for step in self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnwiseMap) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Map an array of shape (m,) or (m, P).

        Infinities give limits: infinite or zero if what is far out still grows or falls in size.
        NaN gives NaN, and so does a value that a step refuses, as Box-Cox does what is not
        positive.
        """
        columns = np.clip(values, -_FAR, _FAR).reshape(len(values), -1)
        missing = np.isnan(columns)
        try:
            mapped = _run(self.steps, self.method, np.where(missing, self.centre, columns))
        except ValueError:
            missing |= self._refused(np.where(missing, self.centre, columns))
            mapped = _run(self.steps, self.method, np.where(missing, self.centre, columns))
        mapped = np.where(missing, np.nan, mapped).reshape(values.shape)
        if (infinite := np.isinf(values)).any():
            nearer = self(np.where(infinite, np.copysign(0.5 * _FAR, values), values))
            grows, falls = np.abs(mapped) > np.abs(nearer), np.abs(mapped) < np.abs(nearer)
            mapped = np.where(infinite & grows, np.copysign(np.inf, mapped), mapped)
            mapped = np.where(infinite & falls, 0.0, mapped)
        return mapped

    def _refused(self, columns: FloatArray) -> NDArray[np.bool_]:
        """Which entries (m, P) are outside the interval of values that every step accepts."""
        refused = np.empty(columns.shape, dtype=bool)
        for output, centre in enumerate(self.centre):
            values = np.unique(columns[:, output])
            below, above = values[values < centre], values[values >= centre]
            accepts = partial(self._accepts, output)
            n_low = bisect_left(below, True, key=accepts)
            n_high = bisect_right(above, False, key=lambda value: not accepts(value))
            inside = np.concatenate([below[n_low:], above[:n_high]])
            refused[:, output] = ~np.isin(columns[:, output], inside)
        return refused

    def _accepts(self, output: int, value: float) -> bool:
        row = self.centre.copy()
        row[output] = value
        try:
            _run(self.steps, self.method, row[None])
        except ValueError:
            return False
        return True


def _key(transformer: Any) -> Hashable:
    """Identity of a transformer: its functions if they are all there is, else the object."""
    if type(transformer) is FunctionTransformer and not (
        transformer.kw_args or transformer.inv_kw_args
    ):
        return (transformer.func, transformer.inverse_func)
    return id(transformer)


def _run(steps: Sequence[Any], method: str, values: FloatArray) -> FloatArray:
    """Apply a method of each step to an array of shape (m, P)."""
    result = values
    # Probes and quadrature nodes leave the domain of a transformer on purpose.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps:
            try:
                result = np.asarray(getattr(step, method)(np.array(result)), dtype=np.float64)
            except IndexError as error:  # of a KBinsDiscretizer, beyond its bins
                raise ValueError(
                    f"{_names(steps)} has no inverse for every number; use a transformer that "
                    "has one, such as a QuantileTransformer."
                ) from error
            if result.ndim == 1:  # FunctionTransformer may return the array of its function as is
                result = result[:, np.newaxis]
    if result.shape != values.shape:
        raise ValueError(
            f"{_names(steps)} turns {values.shape[1]} outputs into {result.shape[1]}; a "
            "distribution can be transformed only output by output."
        )
    return result


def _names(transformers: Sequence[Any]) -> str:
    return "The target transformer " + " after ".join(type(t).__name__ for t in transformers)


def _shuffled(columns: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Columns in different random orders, which reveal whether outputs are mixed."""
    rng = np.random.default_rng(0)
    order = np.column_stack([rng.permutation(len(columns)) for _ in range(columns.shape[1])])
    return np.take_along_axis(columns, order, axis=0), order


def _affine_coefficients(
    transformers: Sequence[Any], n_outputs: int
) -> tuple[FloatArray, FloatArray] | None:
    """Offset and slope of each output, (P,) and (P,), or None if the inverse is not affine.

    The probes do not depend on the predictions, so that one row's result never depends on others.
    """
    probes, _ = _shuffled(np.tile(_PROBES[:, np.newaxis], n_outputs))
    # The slope is taken over the widest span, where a large offset costs the fewest digits.
    span = _MAGNITUDES[-1]
    anchors = np.array([0.0, -span, span])[:, np.newaxis] * np.ones(n_outputs)
    try:
        values = _run(transformers, "inverse_transform", np.vstack([anchors, probes]))
    except ValueError:  # an overflow inside a chain, which an affine one cannot have
        _run(transformers, "inverse_transform", anchors[:1])
        return None
    loc = values[0]
    with np.errstate(all="ignore"):
        scale = (values[2] - values[1]) / (2.0 * span)
        residual = np.abs(values[3:] - (loc + scale * probes))
        close = residual <= _RTOL * (np.abs(loc) + np.abs(scale * probes))
    return (loc, scale) if close.all() and scale.all() else None


def _check_increasing(
    dist: NormalMixture, transformers: Sequence[Any], n_outputs: int
) -> FloatArray:
    """Check the inverse over the range of the distributions; the centre of the range, (P,)."""
    mean = dist.mean().reshape(-1, n_outputs)
    reach = _RANGE_STDS * dist.std().reshape(-1, n_outputs)
    lower, upper = (mean - reach).min(axis=0), (mean + reach).max(axis=0)
    grid = np.linspace(lower, upper, _RANGE_POINTS)
    values = _run(transformers, "inverse_transform", grid)
    name = _names(transformers)
    for output in np.flatnonzero(np.isnan(values).any(axis=0)):
        raise ValueError(
            f"{name} has an undefined (NaN) inverse for some of the values between "
            f"{lower[output]:.6g} and {upper[output]:.6g} that output {output} can take. Use a "
            "transformer whose inverse is defined everywhere, such as log1p and expm1."
        )
    shuffled, order = _shuffled(grid)
    again = _run(transformers, "inverse_transform", shuffled)
    expected = np.take_along_axis(values, order, axis=0)
    atol = _MIXING_TOL * np.median(np.abs(values), axis=0)
    if not np.all(np.isclose(again, expected, rtol=_MIXING_TOL, atol=atol)):
        raise ValueError(
            f"{name} mixes the outputs; a distribution can be transformed only output by output. "
            "Use a transformer that treats every column by itself."
        )
    rising = np.all(values[1:] >= values[:-1], axis=0)
    if (constant := values[-1] == values[0]).any():
        # As beyond the extremes of a QuantileTransformer: transformed targets lie about zero.
        reach = np.maximum(np.abs(lower), np.abs(upper))
        ends = _run(transformers, "inverse_transform", np.stack([-reach, reach]))
        rising &= ~constant | (ends[1] > ends[0])
    for output in np.flatnonzero(~rising):
        raise ValueError(
            f"{name} has an inverse that is not increasing between {lower[output]:.6g} and "
            f"{upper[output]:.6g}, the values that output {output} can take. Use an increasing "
            "transformer, such as log1p and expm1 or a QuantileTransformer."
        )
    centre: FloatArray = grid[_RANGE_POINTS // 2]
    return centre
