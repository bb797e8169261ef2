"""Scalable Gaussian processes with calibrated predictions, as scikit-learn estimators."""

from skgp.compose import predict_dist
from skgp.estimators import (
    DGPClassifier,
    DGPRegressor,
    DSPPClassifier,
    DSPPRegressor,
    ExactGPRegressor,
    FITCRegressor,
    GPRNRegressor,
    IWDGPRegressor,
    MOGPEmbedding,
    MOGPRegressor,
    NeuralDGPRegressor,
    NeuralMOGPEmbedding,
    NeuralMOGPRegressor,
    NeuralSBGPRNEmbedding,
    NeuralSBGPRNRegressor,
    PPGPRClassifier,
    PPGPRRegressor,
    SBGPRNRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VFITCRegressor,
)

__version__ = "0.1.0"

__all__ = [
    "DGPClassifier",
    "DGPRegressor",
    "DSPPClassifier",
    "DSPPRegressor",
    "ExactGPRegressor",
    "FITCRegressor",
    "GPRNRegressor",
    "IWDGPRegressor",
    "MOGPEmbedding",
    "MOGPRegressor",
    "NeuralDGPRegressor",
    "NeuralMOGPEmbedding",
    "NeuralMOGPRegressor",
    "NeuralSBGPRNEmbedding",
    "NeuralSBGPRNRegressor",
    "PPGPRClassifier",
    "PPGPRRegressor",
    "SBGPRNRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "VFITCRegressor",
    "predict_dist",
]
