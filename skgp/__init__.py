"""Scalable Gaussian processes with calibrated predictions, as scikit-learn estimators."""

from skgp._show_versions import show_versions
from skgp._version import __version__ as __version__
from skgp.compose import predict_dist
from skgp.estimators import (
    DGPClassifier,
    DGPRegressor,
    DSPPClassifier,
    DSPPRegressor,
    ExactGPRegressor,
    FITCRegressor,
    GPRNEmbedding,
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
    SBGPRNEmbedding,
    SBGPRNRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VFITCRegressor,
)
from skgp.files import load, save
from skgp.fitting.checkpoint import Checkpoint
from skgp.fitting.functions import FunctionDraws
from skgp.fitting.posterior import FunctionPosterior

__all__ = [
    "Checkpoint",
    "DGPClassifier",
    "DGPRegressor",
    "DSPPClassifier",
    "DSPPRegressor",
    "ExactGPRegressor",
    "FITCRegressor",
    "FunctionDraws",
    "FunctionPosterior",
    "GPRNEmbedding",
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
    "SBGPRNEmbedding",
    "SBGPRNRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "VFITCRegressor",
    "load",
    "predict_dist",
    "save",
    "show_versions",
]
