"""Predictive distributions of composed scikit-learn models, and ensembles over folds."""

from skgp.compose._cross_fitted_classifier import CrossFittedClassifier
from skgp.compose._cross_fitted_regressor import CrossFittedRegressor
from skgp.compose._cross_val import cross_val_predict_dist
from skgp.compose._predict_dist import predict_dist, predict_latent

__all__ = [
    "CrossFittedClassifier",
    "CrossFittedRegressor",
    "cross_val_predict_dist",
    "predict_dist",
    "predict_latent",
]
