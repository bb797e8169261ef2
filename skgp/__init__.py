"""scikit-learn-compatible estimators for scalable Gaussian processes with calibrated predictions."""

from skgp.estimators import PPGPRRegressor, SVGPRegressor

__version__ = "0.1.0"

__all__ = ["PPGPRRegressor", "SVGPRegressor"]
