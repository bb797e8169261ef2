"""Pictures of predictive distributions, by scikit-learn's conventions for displays.

A display is made by `from_estimator`, `from_predictions` or the like, which compute and draw, or by
its constructor, which stores numbers that `plot` draws. matplotlib is needed for drawing only.
"""

from skgp.plotting._conditional_density import ConditionalDensityDisplay
from skgp.plotting._intervals import IntervalDisplay
from skgp.plotting._model_comparison import ModelComparisonDisplay
from skgp.plotting._noise_fraction import NoiseFractionDisplay
from skgp.plotting._pit import PITDisplay
from skgp.plotting._predictive_band import PredictiveBandDisplay
from skgp.plotting._reliability import ReliabilityDisplay
from skgp.plotting._row_density import RowDensityDisplay
from skgp.plotting._training_curve import TrainingCurveDisplay
from skgp.plotting._zscore import ZScoreDisplay

__all__ = [
    "ConditionalDensityDisplay",
    "IntervalDisplay",
    "ModelComparisonDisplay",
    "NoiseFractionDisplay",
    "PITDisplay",
    "PredictiveBandDisplay",
    "ReliabilityDisplay",
    "RowDensityDisplay",
    "TrainingCurveDisplay",
    "ZScoreDisplay",
]
