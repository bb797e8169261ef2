"""Tables of distributions in notebooks, and drawings of few of them."""

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from skgp.distributions import (
    Bernoulli,
    Categorical,
    CountMixture,
    MonotoneTransformed,
    NormalMixture,
)


def table(dist):
    """Head and rows of the HTML, as texts and pictures; the HTML is well-formed XML, too."""
    root = ElementTree.fromstring(dist._repr_html_())
    rows = [list(row) for row in root.iter("tr")]
    return [cell.text or "" for cell in rows[0]], rows[1:], root


def heights(cell):
    """Heights of the bars of a picture, read from its path."""
    path = cell.find("svg/path").get("d")
    width = float(cell.find("svg").get("viewBox").split()[2])
    tops = np.array([float(top) for top in re.findall(r"1V([-\d.e]+)h", path)])
    assert len(tops) == width
    return 1.0 - tops


def test_rows_have_their_numbers(make):
    dist = make("single", n=30)
    head, rows, root = table(dist)
    assert root.find("p").text == "NormalMixture(n_rows=30, n_outputs=1, n_components=4)"
    assert head[2:] == ["mean", "std", "q05", "q50", "q95"]
    assert len(rows) == 10
    for row, cells in enumerate(rows):
        assert cells[0].text == str(row)
        assert cells[2].text == f"{dist.mean()[row]:.4g}"
        assert cells[6].text == f"{dist.ppf(0.95)[row]:.4g}"
    assert root.findall("p")[1].text == "first 10 of 30 rows"
    assert len(table(dist[:10])[2].findall("p")) == 1


def test_bars_are_the_density(make):
    dist = make("single")
    head, rows, _ = table(dist)
    low, high = map(float, re.fullmatch(r"density from (\S+) to (\S+)", head[1]).groups())
    # The range holds nearly all of all rows, and bars are the density but for its scale.
    np.testing.assert_allclose(low, dist.ppf(1e-3).min(), rtol=1e-2)
    np.testing.assert_allclose(high, dist.ppf(1.0 - 1e-3).max(), rtol=1e-2)
    middle = low + (high - low) * (np.arange(40) + 0.5) / 40
    for row, cells in enumerate(rows):
        density = dist[row].pdf(middle[np.newaxis])[0]
        np.testing.assert_allclose(heights(cells[1]), density / density.max(), atol=0.06)


def test_a_peak_narrower_than_a_bar_is_seen():
    dist = NormalMixture([[0.0, 0.0]], [[0.0, 5.01]], [[1.0, 1e-9]])
    bars = heights(table(dist)[1][0][1])
    assert bars.argmax() == np.floor((5.01 + 3.09) / (5.01 + 3.09) * 40 - 1e-6)
    assert np.sum(bars > 0.2) == 1


def test_bars_of_counts_stand_on_the_integers():
    dist = CountMixture(NormalMixture.normal([0.5], 0.1))
    head, rows, _ = table(dist)
    most = int(dist.ppf(1.0 - 1e-3)[0])
    p = dist.pdf(np.arange(most + 1.0)[np.newaxis])[0]
    assert head[1] == f"density from -0.5 to {most + 0.5:g}"
    np.testing.assert_allclose(heights(rows[0][1]), p / p.max(), atol=2e-3)
    wide = CountMixture(NormalMixture.normal([7.0], 0.3))
    assert 20 <= len(heights(table(wide)[1][0][1])) <= 40


def test_outputs_have_pictures_with_their_names(make):
    head, rows, _ = table(make("outputs").with_output_names(["wind", "rain", "<snow>"]))
    assert [name.split()[0] for name in head[1:4]] == ["wind", "rain", "<snow>"]
    assert head[4:6] == ["wind mean", "wind std"]
    assert all(heights(cell).max() == 1.0 for cell in rows[0][1:4])
    many = NormalMixture.normal(np.zeros((2, 30)), 1.0)
    head, _, root = table(many)
    assert len(head) == 1 + 4 + 20
    assert root.findall("p")[1].text == "first 20 of 150 columns"


def test_probabilities_and_labels_of_classes():
    dist = Categorical([[0.5, 0.3, 0.2]], classes=["<b>", "a&b", '"'])
    head, rows, _ = table(dist)
    assert head == ["", "probabilities", "<b>", "a&b", '"']
    assert "<b>" not in dist._repr_html_()
    np.testing.assert_allclose(heights(rows[0][1]), [0.5, 0.3, 0.2])
    np.testing.assert_allclose(heights(table(Bernoulli([0.25]))[1][0][1]), [0.75, 0.25])


def test_colours_are_those_of_the_page(make):
    html = make("single")._repr_html_()
    assert 'fill="currentColor"' in html
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b|style=|white|black", html)


def test_quantiles_out_of_range_leave_no_picture():
    dist = MonotoneTransformed(NormalMixture.normal([0.0, 500.0], 300.0), np.exp, np.log)
    head, rows, _ = table(dist)
    assert head[1] == "mean"
    assert len(rows) == 2


def test_plot_draws_the_densities_of_rows(make):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    dist = make("single")[:2].with_output_names("delay")
    ax = Figure().subplots()
    assert dist.plot(ax) is ax
    for row, line in enumerate(ax.patches):
        values, edges, _ = line.get_data()
        middles = 0.5 * (edges[1:] + edges[:-1])
        np.testing.assert_allclose(values, dist[row].pdf(middles[np.newaxis])[0], atol=2e-3)
        np.testing.assert_allclose(values @ np.diff(edges), 1.0, atol=5e-3)
    assert ax.get_xlabel() == "delay"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["row 0", "row 1"]


def test_plot_draws_the_probabilities_of_classes():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    probs = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    ax = Categorical(probs, classes=["a", "b", "c"]).plot(Figure().subplots())
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], probs.ravel())
    centres = np.reshape([bar.get_x() + 0.5 * bar.get_width() for bar in ax.patches], (2, 3))
    np.testing.assert_allclose(centres.mean(axis=0), [0.0, 1.0, 2.0], atol=1e-12)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]


def test_plot_says_what_to_choose(make, monkeypatch):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"choose up to 10, such as dist\[:3\]"):
        make("single", n=11).plot()
    with pytest.raises(ValueError, match=r"choose one of 3 outputs, such as dist\[:, 0\]"):
        make("outputs").plot()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="plot requires matplotlib"):
        make("single").plot()


def test_other_names_of_quantiles_and_draws(make):
    dist = make("outputs")
    np.testing.assert_array_equal(dist.quantile([0.1, 0.9]), dist.ppf([0.1, 0.9]))
    np.testing.assert_array_equal(dist.sample(3, random_state=0), dist.rvs(3, random_state=0))
