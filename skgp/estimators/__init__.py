"""The scikit-learn shells: one public name for each choice of model, nodes and objective."""

from skgp.estimators.sparse import PPGPRRegressor, SVGPRegressor

__all__ = ["PPGPRRegressor", "SVGPRegressor"]
