"""Scores of predictive distributions, and scorers for scikit-learn."""

from skgp.compose import cross_val_predict_dist
from skgp.scoring._calibration import (
    calibration_error,
    coverage,
    coverage_error,
    noise_fraction,
    pit,
    zscores,
)
from skgp.scoring._class_calibration import expected_calibration_error
from skgp.scoring._class_scorers import neg_expected_calibration_error_scorer, neg_rps_scorer
from skgp.scoring._joint_scores import energy_score, joint_nll
from skgp.scoring._normality import shapiro_wilk
from skgp.scoring._ranked import rps
from skgp.scoring._scorers import (
    DistributionScorer,
    coverage_scorer,
    make_dist_scorer,
    neg_calibration_error_scorer,
    neg_coverage_error_scorer,
    neg_crps_scorer,
    neg_interval_score_scorer,
    neg_joint_nll_scorer,
    neg_nll_scorer,
    neg_pinball_loss_scorer,
    neg_rmse_scorer,
)
from skgp.scoring._scores import crps, interval_score, nll, pinball_loss, rmse

__all__ = [
    "DistributionScorer",
    "calibration_error",
    "coverage",
    "coverage_error",
    "coverage_scorer",
    "cross_val_predict_dist",
    "crps",
    "energy_score",
    "expected_calibration_error",
    "interval_score",
    "joint_nll",
    "make_dist_scorer",
    "neg_calibration_error_scorer",
    "neg_coverage_error_scorer",
    "neg_crps_scorer",
    "neg_expected_calibration_error_scorer",
    "neg_interval_score_scorer",
    "neg_joint_nll_scorer",
    "neg_nll_scorer",
    "neg_pinball_loss_scorer",
    "neg_rmse_scorer",
    "neg_rps_scorer",
    "nll",
    "noise_fraction",
    "pinball_loss",
    "pit",
    "rmse",
    "rps",
    "shapiro_wilk",
    "zscores",
]
