"""Regressors to compare with: other models, or another inference, the same distributions."""

from skgp.estimators.baselines.cvae import CVAERegressor
from skgp.estimators.baselines.mc_dropout import MCDropoutRegressor
from skgp.estimators.baselines.sghmc import SGHMCDGPRegressor

__all__ = ["CVAERegressor", "MCDropoutRegressor", "SGHMCDGPRegressor"]
