"""Scalable Gaussian processes with calibrated predictions, as scikit-learn estimators."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from skgp import datasets as datasets
    from skgp import plotting as plotting
    from skgp import scoring as scoring
    from skgp import streams as streams
else:

    def __getattr__(name: str) -> Any:
        """Subpackages that nothing above needs are loaded when they are first named."""
        if name in {"datasets", "plotting", "scoring", "streams"}:
            return import_module(f"skgp.{name}")
        raise AttributeError(f"module 'skgp' has no attribute {name!r}")
