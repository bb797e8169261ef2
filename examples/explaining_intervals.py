"""
Explaining an interval: which column makes the model uncertain?
===============================================================

scikit-learn's inspection tools explain predictions of the mean. They also explain the uncertainty
of a model, if they are given the width of its intervals. Here some columns change the mean and
another one changes the noise, and the tools tell the two apart.
"""

# %%
# 1,000 rows. Columns 0 to 3 change the mean, column 4 the noise, and column 5 has no effect.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import PartialDependenceDisplay, permutation_importance

from skgp import PPGPRRegressor
from skgp.scoring import neg_crps_scorer, neg_rmse_scorer

rng = np.random.default_rng(0)
X = rng.uniform(size=(1500, 6))
mean = 4.0 * np.sin(3.0 * X[:, 0]) + 3.0 * X[:, 1] - 2.0 * X[:, 2] + 2.0 * X[:, 3] ** 2
y = mean + (0.2 + 2.0 * X[:, 4] ** 2) * rng.standard_normal(len(X))
X_train, y_train, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
names = [f"column {i}" for i in range(6)]
model = PPGPRRegressor(n_inducing=80, max_iter=200, early_stopping=False, random_state=0)
model.fit(X_train, y_train)

# %%
# How much worse does a score become when a column is shuffled? Column 4 does not affect the error
# of the mean, but it does affect the CRPS, which judges the whole distribution.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
scorers = {"error of the mean (RMSE)": neg_rmse_scorer, "distribution (CRPS)": neg_crps_scorer}
for ax, (title, scorer) in zip(axes, scorers.items(), strict=True):
    result = permutation_importance(
        model, X_test, y_test, scoring=scorer, n_repeats=5, random_state=0
    )
    ax.barh(names, result.importances_mean, xerr=result.importances_std)
    ax.set(title=title, xlabel="loss of score")
axes[0].invert_yaxis()
plt.show()


# %%
# Partial dependence of the width of the 90 % interval. A regressor whose prediction is that width
# is all that scikit-learn needs.
class Width(RegressorMixin, BaseEstimator):
    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        low, high = self.model.predict_interval(X, 0.9)
        return high - low


figure, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
display = PartialDependenceDisplay.from_estimator(
    Width(model), X_test, [0, 4, 5], feature_names=names, kind="average", ax=ax
)
display.axes_[0, 0].set_ylabel("width of the 90 % interval")
plt.show()
