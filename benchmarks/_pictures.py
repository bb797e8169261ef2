"""Pictures of a paper's tables: scores of every set, and where predictive variance comes from."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks._protocol import Table, shown_methods
from benchmarks._render import chosen
from skgp.plotting import ModelComparisonDisplay, NoiseFractionDisplay, ZScoreDisplay

N_NODES = 10  # of the fits whose weights are drawn


def draw(table: Table, results: list[dict[str, Any]], folder: Path, name: str) -> None:
    """Write NAME-<metric>.png and NAME-noise.png: the settings chosen on validation rows."""
    methods, datasets = shown_methods(table), table["datasets"]
    rows = sorted(
        (row for row in chosen(table, results) if row["method"] in methods),
        key=lambda row: (datasets.index(row["dataset"]), methods.index(row["method"])),
    )
    if not rows:
        return
    for metric in ("NLL", "CRPS", "RMSE"):
        display = ModelComparisonDisplay.from_results(rows, metric=metric)
        _save(display.figure_, folder / f"{name}-{metric.lower()}.png")
    fractions = {
        method: [
            row["noise_fraction"]
            for row in rows
            if row["method"] == method and "noise_fraction" in row
        ]
        for method in methods
    }
    fractions = {method: values for method, values in fractions.items() if values}
    _save(NoiseFractionDisplay(fractions).plot().figure_, folder / f"{name}-noise.png")


def draw_weights(results: list[dict[str, Any]], folder: Path, name: str) -> None:
    """Write NAME-weights.png: the learned quadrature weights of every fit with ten nodes."""
    fits = [row["quadrature_weights"] for row in results if "quadrature_weights" in row]
    fits = [weights for weights in fits if len(weights) == N_NODES]
    if not fits:
        return
    figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.hist(np.concatenate(fits), bins=40, range=(0, 1), color="C0")
    ax.axvline(1 / N_NODES, color="k", linestyle=":", label="equal weights")
    ax.set(xlabel="quadrature weight", ylabel=f"count, {len(fits)} fits", yscale="log")
    ax.set_ylim(bottom=0.5)
    ax.legend()
    _save(figure, folder / f"{name}-weights.png")


def draw_zscores(table: Table, results: list[dict[str, Any]], folder: Path, name: str) -> None:
    """Write NAME-zscores.png: the distribution of the z-scores of each set's first split."""
    rows = [r for r in chosen(table, results) if "z_quantiles" in r and r["split"] == 0]
    datasets = [name for name in table["datasets"] if any(r["dataset"] == name for r in rows)]
    if not datasets:
        return
    size = (4.5 * len(datasets), 4)
    figure, axes = plt.subplots(1, len(datasets), figsize=size, layout="constrained", squeeze=False)
    for ax, dataset in zip(axes[0], datasets, strict=True):
        fits = {r["method"]: r["z_quantiles"] for r in rows if r["dataset"] == dataset}
        for method in filter(fits.get, table["methods"]):
            ZScoreDisplay(np.array(fits[method]), name=method).plot(ax)
        ax.set_title(dataset)
    _save(figure, folder / f"{name}-zscores.png")


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=100)
    plt.close(figure)
