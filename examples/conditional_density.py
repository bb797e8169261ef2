"""
Conditional densities: letters as data
======================================

Take points inside the letters D, G and P, and predict how high a point lies from how far to the
right it is. The answer is a density on one to three intervals that begin and end abruptly, which no
mean and no standard deviation describe. A Gaussian process of one layer predicts one normal for
each input. A deep one without latent covariates does hardly better, because it explains the spread
of y by homoscedastic noise. With a latent covariate, an input that was not measured, one x can lead
to several values of y.
"""

# %%
# 1,000 points to train on, 1,000 to test. Lengths are in heights of a letter.
import time

import matplotlib.pyplot as plt

from skgp import DGPRegressor, IWDGPRegressor, SVGPRegressor
from skgp.datasets import make_glyphs
from skgp.plotting import ConditionalDensityDisplay
from skgp.scoring import nll, shapiro_wilk

X_train, y_train = make_glyphs("DGP", 1000, random_state=0)
X_test, y_test = make_glyphs("DGP", 1000, random_state=1)

# %%
# The same number of inducing inputs everywhere.
options = {"n_inducing": 50, "random_state": 0}
latent = {"n_importance": 5, "n_prediction_samples": 500, "max_iter": 500, **options}
models = {
    "GP": SVGPRegressor(**options, max_iter=100),
    "GP-GP": DGPRegressor(**options, max_iter=100),
    "LV-GP": IWDGPRegressor(architecture="LV-GP", **latent),
    "LV-GP-GP": IWDGPRegressor(architecture="LV-GP-GP", **latent),
}

# %%
# The log likelihood of the test points judges the densities. The Shapiro-Wilk statistic, averaged
# over the test points, tells how normal they are: about 0.998 for a normal distribution.
print(f"{'model':10}{'log likelihood':>15}{'Shapiro-Wilk':>14}{'seconds':>9}")
for name, model in models.items():
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    dist = model.predict_dist(X_test)
    normality = shapiro_wilk(dist).mean()
    print(f"{name:10}{-nll(y_test, dist):15.3f}{normality:14.3f}{seconds:9.1f}")

# %%
# Where are points likely? All heat maps have the same colours; the line is the mean.
figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True, layout="constrained")
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    ConditionalDensityDisplay.from_estimator(
        model, X_train, y_train, y_grid=300, name=name, highest=4.0, ax=ax, color="#0072B2"
    )
    ax.set_ylim(-0.5, 1.8)
plt.show()
