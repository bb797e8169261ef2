"""Predictive distributions of composed scikit-learn models."""

from skgp.compose._cross_val import cross_val_predict_dist
from skgp.compose._predict_dist import predict_dist, predict_latent

__all__ = ["cross_val_predict_dist", "predict_dist", "predict_latent"]
