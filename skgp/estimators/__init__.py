"""The scikit-learn shells: one public name for each choice of model, nodes and objective."""

from skgp.estimators.dgp import DGPRegressor
from skgp.estimators.dgp_classifier import DGPClassifier
from skgp.estimators.dspp import DSPPRegressor
from skgp.estimators.dspp_classifier import DSPPClassifier
from skgp.estimators.exact import ExactGPRegressor
from skgp.estimators.fitc import FITCRegressor
from skgp.estimators.gprn import GPRNRegressor
from skgp.estimators.gprn_embedding import GPRNEmbedding
from skgp.estimators.iwdgp import IWDGPRegressor
from skgp.estimators.mogp import MOGPRegressor, NeuralMOGPRegressor
from skgp.estimators.mogp_embedding import MOGPEmbedding, NeuralMOGPEmbedding
from skgp.estimators.neural_dgp import NeuralDGPRegressor
from skgp.estimators.ppgpr import PPGPRRegressor
from skgp.estimators.ppgpr_classifier import PPGPRClassifier
from skgp.estimators.sbgprn import NeuralSBGPRNRegressor, SBGPRNRegressor
from skgp.estimators.sbgprn_embedding import NeuralSBGPRNEmbedding, SBGPRNEmbedding
from skgp.estimators.svgp import SVGPRegressor
from skgp.estimators.svgp_classifier import SVGPClassifier
from skgp.estimators.vfitc import VFITCRegressor

__all__ = [
    "DGPClassifier",
    "DGPRegressor",
    "DSPPClassifier",
    "DSPPRegressor",
    "ExactGPRegressor",
    "FITCRegressor",
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
]
