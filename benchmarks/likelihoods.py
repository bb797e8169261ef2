"""Likelihoods of one output against the normal one, on rows that neither fit has seen.

    python -m benchmarks.likelihoods FOLDER [--folds 3 4 5] [--parts values grades censored]

FOLDER holds tables `<name>.npz` with X, y and test_mask. The parts are:

- values: counts and real targets. Of counts the score of the normal is that of the probability of
  the count, the normal's mass within half a unit of it.
- grades: ordered classes. The probability of a grade is that mass too, and all beyond at the ends.
- censored: the upper third of the training targets is known to exceed a bound. Test targets are
  not censored, and "observed" is the fit of all training targets.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from skgp import PPGPRClassifier, PPGPRRegressor, SVGPClassifier, SVGPRegressor
from skgp.scoring import coverage, crps, nll, rps

FAMILIES = {"SVGP": (SVGPRegressor, SVGPClassifier), "PPGPR": (PPGPRRegressor, PPGPRClassifier)}
COUNTS = ("normal", "poisson", "negative_binomial")
REALS = ("normal", "student_t", "heteroscedastic")
# Table: whether its targets, less the smallest one, are counts, and the likelihoods to compare.
VALUES = {
    "solar": (True, COUNTS),
    "wine-red": (True, COUNTS),
    "housing": (False, REALS),
    "stock": (False, REALS),
    "yacht": (False, REALS),
}
GRADES = {"wine-red": ("normal", "ordinal", "auto")}
CENSORED = ("housing", "autompg", "airfoil", "yacht")
Scored = tuple[dict[str, float], dict[str, Any]]  # scores, and what was learned
Task = Callable[[Any, Any, Any, Any], Scored]  # of X, y and test rows of both


def fitted(model: Any, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def mass(dist: Any, low: Any, high: Any) -> Any:
    """Probability of an interval, from the tail that rounding leaves."""
    return np.maximum(dist.cdf(high) - dist.cdf(low), dist.sf(low) - dist.sf(high))


def scores(y: Any, dist: Any, counts: bool = False) -> dict[str, float]:
    """Negative log density or probability, CRPS, coverage of 90 % intervals."""
    value = float(nll(y, dist))
    if counts and type(dist).__name__ == "NormalMixture":
        value = -float(np.log(mass(dist, y - 0.5, y + 0.5)).mean())
    return {"NLL": value, "CRPS": float(crps(y, dist)), "coverage90": float(coverage(y, dist))}


def values(make: Any, likelihood: str, counts: bool) -> Task:
    def run(X: Any, y: Any, X_new: Any, y_new: Any) -> Scored:
        model = fitted(make(likelihood=likelihood), X, y)
        return scores(y_new, model.predict_dist(X_new), counts), model.likelihood_parameters_

    return run


def grades(make: Any, make_classifier: Any, likelihood: str) -> Task:
    def run(X: Any, y: Any, X_new: Any, y_new: Any) -> Scored:
        labels, learned = np.unique(np.concatenate([y, y_new])), {}
        if likelihood == "normal":
            dist = fitted(make(), X, y).predict_dist(X_new)
            edges = np.array([-np.inf, *(labels[1:] + labels[:-1]) / 2, np.inf])
            p = np.column_stack([mass(dist, *ends) for ends in pairwise(edges)])
        else:
            model = fitted(make_classifier(likelihood=likelihood), X, y)
            p = np.zeros((len(X_new), len(labels)))
            p[:, np.searchsorted(labels, model.classes_)] = model.predict_proba(X_new)
            learned = model.likelihood_parameters_
        right = labels[p.argmax(1)] == y_new
        return {
            "NLL": log_loss(y_new, p / p.sum(1, keepdims=True), labels=labels),
            "RPS": rps(y_new, p / p.sum(1, keepdims=True), labels=labels),
            "accuracy": float(right.mean()),
        }, learned

    return run


def censored(make: Any, how: str) -> Task:
    def run(X: Any, y: Any, X_new: Any, y_new: Any) -> Scored:
        bound = np.quantile(y, 2 / 3)
        beyond = y > bound
        if how == "censored":
            bounds = np.column_stack([np.minimum(y, bound), np.where(beyond, np.inf, y)])
            model = fitted(make(likelihood="censored"), X, bounds)
        elif how == "dropped":
            model = fitted(make(), X[~beyond], y[~beyond])
        else:
            model = fitted(make(), X, np.minimum(y, bound) if how == "as values" else y)
        return scores(y_new, model.predict_dist(X_new)), {}

    return run


def tasks(parts: Any, families: Any) -> Iterator[tuple[str, str, str, Task]]:
    """Table, family and likelihood, and what is done with the rows of a fold."""
    for family in families:
        make, make_classifier = (
            partial(cls, n_inducing=100, random_state=0) for cls in FAMILIES[family]
        )
        if "values" in parts:
            for name, (counts, likelihoods) in VALUES.items():
                for likelihood in likelihoods:
                    yield name, family, likelihood, values(make, likelihood, counts)
        if "grades" in parts:
            for name, likelihoods in GRADES.items():
                for likelihood in likelihoods:
                    yield name, family, likelihood, grades(make, make_classifier, likelihood)
        if "censored" in parts:
            for name in CENSORED:
                for how in ("observed", "censored", "dropped", "as values"):
                    yield name, family, how, censored(make, how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parts = ["values", "grades", "censored"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--tables", nargs="+", help="all by default")
    args = parser.parse_args()
    for name, family, likelihood, task in tasks(args.parts, args.families):
        if args.tables and name not in args.tables:
            continue
        table = np.load(args.folder / f"{name}.npz")
        X, y = table["X"], table["y"].ravel().astype(float)
        if VALUES.get(name, (False,))[0]:
            y = np.round(y - y.min())
        results, learned = [], {}
        start = time.process_time()
        for fold in args.folds:
            test = table["test_mask"][:, fold].astype(bool)
            of_fold, learned = task(X[~test], y[~test], X[test], y[test])
            results.append(of_fold)
        seconds = (time.process_time() - start) / len(args.folds)
        means = {key: np.mean([result[key] for result in results]) for key in results[0]}
        text = " ".join(f"{key} {value:.3f}" for key, value in means.items())
        rounded = {key: np.round(value, 3).tolist() for key, value in learned.items()}
        print(name, family, likelihood, text, f"seconds {seconds:.1f}", rounded, flush=True)


if __name__ == "__main__":
    main()
