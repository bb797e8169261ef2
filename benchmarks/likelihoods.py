"""Likelihoods of one output against the normal one, on rows that neither fit has seen.

    python -m benchmarks.likelihoods FOLDER [--folds 3 4 5]

FOLDER holds tables `<name>.npz` with X, y and test_mask. Of counts the score of the normal is that
of the probability of the count, the normal's mass within half a unit of it.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from skgp import PPGPRRegressor, SVGPRegressor
from skgp.scoring import coverage, crps, nll

FAMILIES = {"SVGP": SVGPRegressor, "PPGPR": PPGPRRegressor}
COUNTS = ("normal", "poisson", "negative_binomial")
REALS = ("normal", "student_t", "heteroscedastic")
# Table: whether its targets, less the smallest one, are counts, and the likelihoods to compare.
TABLES = {
    "solar": (True, COUNTS),
    "wine-red": (True, COUNTS),
    "housing": (False, REALS),
    "stock": (False, REALS),
    "yacht": (False, REALS),
}


def scores(y: Any, dist: Any, counts: bool) -> tuple[float, float, float]:
    """Negative log density or probability, CRPS, coverage of 90 % intervals."""
    value = float(nll(y, dist))
    if counts and type(dist).__name__ == "NormalMixture":
        below, above = (f(y + 0.5) - f(y - 0.5) for f in (dist.cdf, dist.sf))
        value = -float(np.log(np.maximum(below, -above)).mean())  # the tail that rounding leaves
    return value, float(crps(y, dist)), float(coverage(y, dist))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    args = parser.parse_args()
    print("table family likelihood NLL CRPS coverage90 seconds learned")
    for family in args.families:
        for name in args.tables:
            counts, likelihoods = TABLES[name]
            table = np.load(args.folder / f"{name}.npz")
            X, y = table["X"], table["y"].ravel().astype(float)
            if counts:
                y = np.round(y - y.min())
            for likelihood in likelihoods:
                results, learned = [], {}
                start = time.process_time()
                for fold in args.folds:
                    test = table["test_mask"][:, fold].astype(bool)
                    model = FAMILIES[family](n_inducing=100, likelihood=likelihood, random_state=0)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model.fit(X[~test], y[~test])
                    results.append(scores(y[test], model.predict_dist(X[test]), counts))
                    learned = model.likelihood_parameters_
                seconds = (time.process_time() - start) / len(args.folds)
                means = " ".join(f"{value:.3f}" for value in np.mean(results, axis=0))
                rounded = {key: round(value, 3) for key, value in learned.items()}
                print(name, family, likelihood, means, f"{seconds:.1f}", rounded, flush=True)


if __name__ == "__main__":
    main()
