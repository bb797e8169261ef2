"""Pictures of a paper's tables: scores of every set, and where predictive variance comes from."""

from pathlib import Path
from typing import Any

from benchmarks._protocol import shown_methods
from benchmarks._render import chosen
from skgp.plotting import ModelComparisonDisplay, NoiseFractionDisplay


def draw(protocol: dict[str, Any], results: list[dict[str, Any]], folder: Path, name: str) -> None:
    """Write NAME-<metric>.png and NAME-noise.png: the settings chosen on validation rows."""
    methods, datasets = shown_methods(protocol), protocol["datasets"]
    rows = sorted(
        (row for row in chosen(protocol, results) if row["method"] in methods),
        key=lambda row: (datasets.index(row["dataset"]), methods.index(row["method"])),
    )
    for metric in ("NLL", "CRPS", "RMSE"):
        display = ModelComparisonDisplay.from_results(rows, metric=metric)
        display.figure_.savefig(folder / f"{name}-{metric.lower()}.png", dpi=100)
    fractions = {
        method: [row["noise_fraction"] for row in rows if row["method"] == method]
        for method in methods
    }
    fractions = {method: values for method, values in fractions.items() if values}
    display = NoiseFractionDisplay(fractions).plot()
    display.figure_.savefig(folder / f"{name}-noise.png", dpi=100)
