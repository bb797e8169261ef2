"""How far z-scores of a fit are from standard normal ones."""

from typing import Any

import numpy as np
from scipy.stats import kstest

from benchmarks._protocol import Rows
from skgp import scoring

N_QUANTILES = 400  # that are kept of a fit, for its picture


def zscore_scores(estimator: Any, test: Rows) -> dict[str, Any]:
    """Largest distance of the z-scores' cdf from the normal one, and quantiles to draw it from."""
    z = scoring.zscores(test[1], estimator.predict_dist(test[0]))
    levels = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
    return {
        "z_distance": float(kstest(z, "norm").statistic),
        "z_quantiles": np.quantile(z, levels).round(3).tolist(),
    }
