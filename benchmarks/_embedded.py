"""Scores of embeddings: held-out rows of a table, reconstructed from their own posteriors."""

from typing import Any

import numpy as np

from benchmarks._nested import nested_log_likelihood
from skgp import scoring

_N_OUTER = 25


def embedding_scores(estimator: Any, Y: Any, seed: int = 0) -> dict[str, Any]:
    """What is kept of a fitted embedding, given held-out rows.

    nested_LL is what the neural likelihoods paper tabulates: log p(y | x) averaged over draws of x
    from a posterior that was fitted to the same y, by the nested estimator. It says how well
    rows are reconstructed. IWLL is an estimate of log p(y), see `score_samples`.

    Parameters
    ----------
    estimator : fitted embedding
    Y : array of shape (n, P)
    seed : int
    """
    posterior = estimator.transform_dist(Y)
    draws = posterior.rvs(_N_OUTER, random_state=seed)
    dist = estimator.predict_dist(posterior.mean())
    return {
        "nested_LL": float(
            np.mean(
                [
                    nested_log_likelihood(estimator, draws[..., k], Y, n_outer=1, seed=seed + k)
                    for k in range(_N_OUTER)
                ]
            )
        ),
        "IWLL": estimator.score(Y),
        "RMSE": scoring.rmse(Y, dist),
        "coverage90": scoring.coverage(Y, dist, coverage=0.9),
        "noise_variance": np.asarray(estimator.noise_variance_).tolist(),
    }
