"""The scikit-learn shells: one public name for each choice of model, nodes and objective."""

from skgp.estimators.dgp import DGPRegressor
from skgp.estimators.dspp import DSPPRegressor
from skgp.estimators.exact import ExactGPRegressor
from skgp.estimators.fitc import FITCRegressor
from skgp.estimators.iwdgp import IWDGPRegressor
from skgp.estimators.ppgpr import PPGPRRegressor
from skgp.estimators.svgp import SVGPRegressor
from skgp.estimators.vfitc import VFITCRegressor

__all__ = [
    "DGPRegressor",
    "DSPPRegressor",
    "ExactGPRegressor",
    "FITCRegressor",
    "IWDGPRegressor",
    "PPGPRRegressor",
    "SVGPRegressor",
    "VFITCRegressor",
]
