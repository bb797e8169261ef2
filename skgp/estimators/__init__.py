"""The scikit-learn shells: one public name for each choice of model, nodes and objective."""

from skgp.estimators.exact import ExactGPRegressor
from skgp.estimators.fitc import FITCRegressor
from skgp.estimators.ppgpr import PPGPRRegressor
from skgp.estimators.svgp import SVGPRegressor
from skgp.estimators.vfitc import VFITCRegressor

__all__ = [
    "ExactGPRegressor",
    "FITCRegressor",
    "PPGPRRegressor",
    "SVGPRegressor",
    "VFITCRegressor",
]
