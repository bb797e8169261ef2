"""Choice of inducing inputs: arrays in, array out."""

import numpy as np
import numpy.typing as npt
from sklearn.cluster import MiniBatchKMeans

Array = npt.NDArray[np.float64]


def kmeans_inducing_points(X: Array, n_inducing: int, seed: int) -> Array:
    """Inducing inputs by k-means with a k-means++ start.

    Parameters
    ----------
    X : array of shape (n, D)
        Scaled inputs, a subsample of a large table.
    n_inducing : int
        Number M of inducing inputs wanted.
    seed : int

    Returns
    -------
    array of shape (min(M, number of distinct rows), D)
        All distinct rows, sorted, if there are no more than M.
    """
    distinct = np.unique(X, axis=0)
    if distinct.shape[0] <= n_inducing:
        return np.asarray(distinct)
    kmeans = MiniBatchKMeans(
        n_inducing,
        init="k-means++",
        n_init=1,
        batch_size=max(1024, 3 * n_inducing),
        max_iter=20,
        random_state=seed,
    )
    return np.asarray(kmeans.fit(X).cluster_centers_, dtype=float)
