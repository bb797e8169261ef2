"""Left-out rows of an exact GP, beside GPs of the other rows."""

import math

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.stats import norm

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import DeltaPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.left_out import left_out_log_densities
from skgp.core.marginal.observed_rows import ObservedRows


def test_left_out_densities_are_those_of_gps_of_all_copies_of_the_other_rows(rng):
    x, y, copies = (
        rng.standard_normal((7, 2)),
        rng.standard_normal(7),
        np.array([1, 2, 1, 3, 1, 1, 2]),
    )
    kernel = Stationary("matern52", 1, 2, 0.8).double()
    with torch.no_grad():
        kernel.log_variance.fill_(math.log(1.7))
    layer = SparseGP(kernel, torch.zeros(1, 1, 2).double(), DeltaPosterior(torch.zeros(1, 1)), 0.0)
    layer = layer.double()
    with torch.no_grad():
        layer.mean.fill_(0.3)
    rows = ObservedRows(*(torch.from_numpy(part) for part in (x, y[None], copies.astype(float))))
    variance, mean = kernel.variance.item(), layer.mean.item()  # in double precision
    lengthscale = kernel.lengthscale[0, 0].item()
    found = left_out_log_densities(layer, rows, torch.tensor([0.2], dtype=torch.float64))

    def covariance(a, b):
        r = math.sqrt(5.0) * cdist(a, b) / lengthscale
        return variance * (1.0 + r + r**2 / 3.0) * np.exp(-r)

    for i in range(7):
        others = np.repeat(np.delete(np.arange(7), i), np.delete(copies, i))
        K = covariance(x[others], x[others]) + 0.2 * np.eye(len(others))
        k = covariance(x[others], x[i : i + 1])[:, 0]
        centre = mean + k @ np.linalg.solve(K, y[others] - mean)
        var = variance + 0.2 - k @ np.linalg.solve(K, k)
        np.testing.assert_allclose(
            found[i].item(), norm(centre, math.sqrt(var)).logpdf(y[i]), rtol=1e-11
        )
