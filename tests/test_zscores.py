"""What is kept of a fit's z-scores, and the picture that is drawn from it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks import _pictures
from benchmarks._zscores import zscore_scores
from skgp.distributions import NormalMixture


class Known:
    """Predicts a mean of 1 and a standard deviation of 2 for all rows."""

    def predict_dist(self, X):
        return NormalMixture.normal(np.ones(len(X)), np.full(len(X), 2.0))


def test_the_distance_and_the_quantiles_of_zscores_by_a_loop():
    y = np.random.default_rng(0).standard_normal(301) * 3.0
    values = zscore_scores(Known(), (np.zeros((301, 1)), y))
    z = sorted((value - 1.0) / 2.0 for value in y)
    steps = [abs(ndtr(v) - (i + k) / 301) for i, v in enumerate(z) for k in (0, 1)]
    assert values["z_distance"] == pytest.approx(max(steps))
    assert len(values["z_quantiles"]) == 400
    assert values["z_quantiles"][200] == pytest.approx(z[150], abs=0.02)
    assert values["z_quantiles"] == sorted(values["z_quantiles"])


def test_a_panel_for_each_set_and_a_curve_for_each_method(monkeypatch, tmp_path):
    table = {"datasets": ["a", "b"], "methods": {"m": {"params": {}}, "n": {"params": {}}}}
    fits = [("a", "n", [0.0, 1.0]), ("a", "m", [-1.0, 2.0]), ("b", "m", [0.5, 3.0])]
    results = [
        {"dataset": d, "method": m, "split": 0, "params": {}, "max_rows": None, "z_quantiles": z}
        for d, m, z in fits
    ]
    saved = []
    monkeypatch.setattr(_pictures, "_save", lambda figure, path: saved.append((figure, path)))
    _pictures.draw_zscores(table, results, tmp_path, "x")
    ((figure, path),) = saved
    assert path == tmp_path / "x-zscores.png"
    drawn = [
        {
            line.get_label(): line.get_xdata()[1:].tolist()
            for line in ax.lines
            if len(line.get_xdata()) < 9
        }
        for ax in figure.axes
    ]
    assert drawn == [{"m": [-1.0, 2.0], "n": [0.0, 1.0]}, {"m": [0.5, 3.0]}]
    assert [ax.get_title() for ax in figure.axes] == ["a", "b"]
    plt.close(figure)
