"""CatBoost with the loss that its documentation names for uncertainty."""

from typing import Any

import numpy as np
from catboost import CatBoostRegressor
from sklearn.model_selection import train_test_split

from benchmarks._newcomer import NormalNewcomer


class CatBoost(NormalNewcomer):
    """`CatBoostRegressor` for mean and variance, stopped early on a tenth of the rows."""

    def _fit_output(self, X: np.ndarray, y: np.ndarray) -> CatBoostRegressor:
        model = CatBoostRegressor(
            loss_function="RMSEWithUncertainty",
            early_stopping_rounds=50,  # has no default: all 1,000 trees would be grown
            random_seed=0,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
        )
        X, X_held_out, y, y_held_out = train_test_split(X, y, test_size=0.1, random_state=0)
        return model.fit(X, y, eval_set=(X_held_out, y_held_out))

    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = model.predict(X, prediction_type="RMSEWithUncertainty").T
        return mean, np.sqrt(variance)
