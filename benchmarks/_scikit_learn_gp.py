"""scikit-learn's Gaussian process as its users write it."""

from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._newcomer import NormalNewcomer


class ScikitLearnGP(NormalNewcomer):
    """`GaussianProcessRegressor`: Matern 5/2 with ARD, a scale and noise, inputs standardised."""

    def _fit_output(self, X: np.ndarray, y: np.ndarray) -> Pipeline:
        kernel = ConstantKernel() * Matern(np.ones(X.shape[1]), nu=2.5) + WhiteKernel()
        gp = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        return make_pipeline(StandardScaler(), gp).fit(X, y)

    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return model.predict(X, return_std=True)  # with the noise
