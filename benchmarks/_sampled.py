"""Scores from samples of predictions, as the importance-weighted paper has them."""

from typing import Any

import numpy as np

from skgp.distributions import kernel_density
from skgp.scoring import shapiro_wilk

N_SAMPLES = 2000


def sampled_scores(estimator: Any, test: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Log likelihood by densities estimated from 2,000 samples a row, and the Shapiro-Wilk W."""
    dist = estimator.predict_dist(test[0])
    density = kernel_density(dist.rvs(N_SAMPLES, random_state=0))
    return {
        "density_LL": float(density.logpdf(test[1]).mean()),
        "ShapiroWilk": float(shapiro_wilk(dist).mean()),
    }
