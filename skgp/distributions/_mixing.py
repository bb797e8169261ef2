"""Equal mixtures of several distributions of the same rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skgp._typing import FloatArray
from skgp.distributions._base import AnyDistribution
from skgp.distributions._components import Components
from skgp.distributions._counts import CountMixture
from skgp.distributions._discrete import Bernoulli, Categorical, DiscreteDistribution
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._outputs import common_names
from skgp.distributions._transformed import MonotoneTransformed


def mix(distributions: Sequence[AnyDistribution]) -> AnyDistribution:
    """Mix several distributions of the same rows, each with the same weight.

    Of K distributions with densities or probabilities p_k it is the one of p = sum_k p_k / K, the
    prediction of an ensemble. :func:`concat` puts rows one after another instead.

    Parameters
    ----------
    distributions : sequence of distributions
        At least one; all of one class, with the same rows, outputs or classes. Normal mixtures may
        differ in their number of components.

    Returns
    -------
    distribution
        Of the same class and shape. A normal mixture has the components of all.

    Raises
    ------
    ValueError
        If the sequence is empty or its items do not fit together.
    TypeError
        If there is no mixture of this class.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture, mix
    >>> parts = [NormalMixture.normal([0.0], 1.0), NormalMixture.normal([4.0], 1.0)]
    >>> mix(parts)
    NormalMixture(n_rows=1, n_outputs=1, n_components=2)
    >>> mix(parts).mean().tolist(), mix(parts).var().tolist()
    ([2.0], [5.0])
    """
    parts: list[Any] = list(distributions)
    if not parts:
        raise ValueError("mix needs at least one distribution")
    kinds = sorted({type(part).__name__ for part in parts})
    if len(kinds) > 1:
        raise ValueError(f"mix needs distributions of one class, got {', '.join(kinds)}")
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"mix needs distributions of the same rows, got shapes {sorted(shapes)}")
    mixed: Any
    if isinstance(parts[0], NormalMixture):
        names = common_names([part.output_names for part in parts])
        mixed = _normals([part.components() for part in parts]).with_output_names(names)
    elif isinstance(parts[0], MonotoneTransformed):
        mixed = MonotoneTransformed._of_bases(parts, mix, "mix")
    elif isinstance(parts[0], CountMixture):
        mixed = CountMixture._mixed(parts, mix)
    elif isinstance(parts[0], DiscreteDistribution):
        mixed = _classes(parts)
    else:
        raise TypeError(f"there is no mixture of distributions of the class {kinds[0]}")
    return mixed


def _normals(parts: Sequence[Components]) -> NormalMixture:
    """The components of all parts, with their weights divided by the number of parts."""
    with np.errstate(divide="ignore"):
        log_w = np.log(np.concatenate([part.weights for part in parts], axis=1)) - np.log(
            len(parts)
        )
    mean = np.concatenate([part.mean for part in parts], axis=1)
    if all(part.scale_tril is None for part in parts):
        return NormalMixture(log_w, mean, np.concatenate([part.std for part in parts], axis=1))
    factors = np.concatenate([_factor(part) for part in parts], axis=1)
    return NormalMixture(log_w, mean, None, factors)


def _factor(part: Components) -> FloatArray:
    """Cholesky factors (n, S, P, P), diagonal if outputs are independent given the component."""
    if part.scale_tril is not None:
        return part.scale_tril
    diagonal: FloatArray = part.std[..., None] * np.eye(part.std.shape[-1])
    return diagonal


def _classes(parts: Sequence[DiscreteDistribution]) -> DiscreteDistribution:
    """The mean of the probabilities."""
    classes = parts[0].classes
    if not all(np.array_equal(part.classes, classes) for part in parts):
        raise ValueError("mix needs distributions with the same classes")
    p = np.mean([np.asarray(part) for part in parts], axis=0)
    kind = Bernoulli.of_columns if type(parts[0]) is Bernoulli else Categorical
    return kind(p, classes)
