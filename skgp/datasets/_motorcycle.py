"""The motorcycle crash test: measured rows whose noise depends on the input."""

from importlib.resources import files
from inspect import getdoc

import numpy as np
from sklearn.utils import Bunch

from skgp._typing import FloatArray


def load_motorcycle(*, return_X_y: bool = False) -> Bunch | tuple[FloatArray, FloatArray]:
    """Motorcycle crash test: the acceleration of a rider's head after an impact.

    Measured in simulated accidents that tested crash helmets [1]_, and published in [2]_. Before
    the impact reaches the head it is at rest, and the measurements hardly vary. Later they scatter
    over 100 g. So no single noise variance describes all rows. Some times occur more than once:
    133 rows have 94 different ones.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return `(data, target)` in place of a `Bunch`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With these entries:

        data : ndarray of shape (133, 1)
            Time after the impact in milliseconds, in increasing order.
        target : ndarray of shape (133,)
            Acceleration of the head in g (9.81 m/s^2).
        feature_names, target_names : list of str
            The columns of `data` and the name of `target`, with their units.
        DESCR : str
            This text.
    (data, target) : tuple of ndarrays
        If `return_X_y` is true.

    References
    ----------
    .. [1] G. Schmidt, R. Mattern and F. Schueler, "Biomechanical investigation to determine
       physical and traumatological differentiation criteria for the maximum load capacity of head
       and vertebral column with and without protective helmet under the effects of impact", EEC
       Research Program on Biomechanics of Impacts, final report phase III, project 65, University
       of Heidelberg, 1981.
    .. [2] B. W. Silverman, "Some aspects of the spline smoothing approach to non-parametric
       regression curve fitting", Journal of the Royal Statistical Society B 47 (1985) 1-52.

    Examples
    --------
    >>> from skgp.datasets import load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> X.shape, y.shape
    ((133, 1), (133,))
    >>> X[y.argmin()], y.min()
    (array([21.2]), np.float64(-134.0))
    >>> load_motorcycle().feature_names
    ['time (ms)']
    """
    with (files("skgp.datasets") / "motorcycle.csv").open(encoding="utf-8") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    X, y = rows[:, :1].copy(), rows[:, 1].copy()
    if return_X_y:
        return X, y
    return Bunch(
        data=X,
        target=y,
        feature_names=["time (ms)"],
        target_names=["acceleration (g)"],
        DESCR=getdoc(load_motorcycle),
    )
