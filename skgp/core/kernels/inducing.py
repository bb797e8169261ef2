"""Choice of inducing inputs: arrays in, array out."""

from typing import Final

import numpy as np

from skgp._typing import FloatArray

_DIGITS: Final = 9  # after the point; rounding errors of inputs are near the sixteenth


def kmeans_inducing_points(
    X: FloatArray, weight: FloatArray, n_inducing: int, seed: int
) -> FloatArray:
    """Inducing inputs by k-means with a k-means++ start.

    Equal rows count as one row with the sum of their weights. So neither the order of the rows nor
    repeating a row instead of weighting it makes a difference. Nor do rounding errors: where there
    are nearly as many centres as rows, rows tie between centres, and such errors would decide. So
    rows are clustered with nine digits after the point, and weights as float32.

    Parameters
    ----------
    X : array of shape (n, D)
        Of the order of one, a subsample of a large table.
    weight : array of shape (n,)
        Weights of the rows; rows of weight zero do not count.
    n_inducing : int
        Number M of inducing inputs wanted.
    seed : int

    Returns
    -------
    array of shape (min(M, number of distinct rows), D)
        All distinct rows, sorted, if there are no more than M.
    """
    from sklearn.cluster import MiniBatchKMeans  # a sixth of a second

    counts = weight > 0.0
    distinct, first, number = np.unique(
        X[counts].round(_DIGITS), axis=0, return_index=True, return_inverse=True
    )
    if distinct.shape[0] <= n_inducing:
        return np.asarray(X[counts][first])
    total = np.bincount(number.ravel(), weight[counts])
    kmeans = MiniBatchKMeans(
        n_inducing,
        init="k-means++",
        n_init=1,
        batch_size=max(1024, 3 * n_inducing),
        max_iter=20,
        random_state=seed,
    )
    kmeans.fit(distinct, sample_weight=(total / total.mean()).astype(np.float32))
    return np.asarray(kmeans.cluster_centers_, dtype=float)
