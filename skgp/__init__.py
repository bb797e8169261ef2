"""Scalable Gaussian processes with calibrated predictions, as scikit-learn estimators."""

from skgp.compose import predict_dist
from skgp.estimators import (
    DGPRegressor,
    DSPPRegressor,
    ExactGPRegressor,
    FITCRegressor,
    GPRNRegressor,
    IWDGPRegressor,
    MOGPRegressor,
    NeuralDGPRegressor,
    NeuralMOGPRegressor,
    NeuralSBGPRNRegressor,
    PPGPRRegressor,
    SBGPRNRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VFITCRegressor,
)

__version__ = "0.1.0"

__all__ = [
    "DGPRegressor",
    "DSPPRegressor",
    "ExactGPRegressor",
    "FITCRegressor",
    "GPRNRegressor",
    "IWDGPRegressor",
    "MOGPRegressor",
    "NeuralDGPRegressor",
    "NeuralMOGPRegressor",
    "NeuralSBGPRNRegressor",
    "PPGPRRegressor",
    "SBGPRNRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "VFITCRegressor",
    "predict_dist",
]
