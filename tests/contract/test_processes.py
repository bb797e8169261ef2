"""Predictions in other processes and beside a fit, and the memory that they take."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from contract_cases import CLASSIFIERS, EMBEDDINGS, REPRESENTATIVES, Case, Data, for_representatives
from sklearn.model_selection import KFold, cross_val_score

from skgp.scoring import neg_crps_scorer

CASES = REPRESENTATIVES + CLASSIFIERS[:1] + EMBEDDINGS[:1]


def run(script: str, timeout: float = 120.0) -> str:
    """What a script prints in a process of its own, with one thread unless it asks for more."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


HAS_FORK = "fork" in multiprocessing.get_all_start_methods()


@pytest.mark.skipif(not HAS_FORK, reason="processes cannot fork on this platform")
def test_predictions_and_fits_in_a_forked_process_end() -> None:
    """The parent has worked with two threads; without the guard its child waits for ever."""
    answer = run(
        """
        import multiprocessing
        import numpy as np, torch
        from skgp import SVGPRegressor
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        model = SVGPRegressor(n_inducing=20, max_iter=1, random_state=0).fit(X, X[:, 0])
        torch.set_num_threads(2)
        mean = model.predict(X)
        def again(_):
            return model.predict(X), model.fit(X, X[:, 0]).predict(X), torch.get_num_threads()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            [(there, refitted, n_threads)] = pool.map_async(again, [0]).get(60)
        print(np.abs(there - mean).max() < 1e-9, np.abs(refitted - mean).max() < 1e-3, n_threads)
        print(torch.get_num_threads())
        """
    )
    assert answer.split() == ["True", "True", "1", "2"]


def test_memory_of_predictions_is_that_of_the_result() -> None:
    """100,000 rows: the mean takes 0.8 MB, a distribution 1.6 MB for each component.

    The peak is that of the whole process, so the rise above an earlier peak is what is seen.
    """
    answer = run(
        """
        import gc, resource
        import numpy as np
        from skgp import DSPPRegressor, SVGPRegressor
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 4))
        Z = rng.normal(size=(100_000, 4)).astype(np.float32)
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for model in (SVGPRegressor(n_inducing=20), DSPPRegressor(n_inducing=20, n_sites=8)):
            model.set_params(max_iter=1, random_state=0).fit(X, X[:, 0]).predict(Z[:5000])
            before = peak()
            model.predict(Z)
            model.predict_interval(Z)
            mean = peak() - before
            dist = model.predict_dist(Z)
            print(mean, peak() - before)
            del dist
        """
    )
    svgp, dspp = ([float(x) for x in line.split()] for line in answer.splitlines())
    assert svgp[0] < 20.0
    assert svgp[1] < 20.0 + 1.6
    assert dspp[0] < 20.0
    assert dspp[1] < 20.0 + 8 * 1.6


def test_a_fit_that_ends_amid_a_prediction_does_not_mix_with_it(
    case: Case, data: Data, monkeypatch: Any
) -> None:
    """The second chunk of a prediction comes from the state of the first."""
    monkeypatch.setattr("skgp.fitting.model._CHUNK", 10)
    is_embedding, is_classifier = case in EMBEDDINGS, case in CLASSIFIERS
    if is_embedding:
        first: tuple[Any, ...] = (np.column_stack([data.X, data.y]),)
        other: tuple[Any, ...] = (np.column_stack([data.y, data.X])[:40],)
    else:
        y = np.where(data.y > 20.0, "cat", "dog") if is_classifier else data.y
        y_other = np.where(data.y > 20.0, "ham", "spam") if is_classifier else 100.0 * data.y
        first, other = (data.X, y), (data.X[:, :2], y_other)
    model = case.make(max_iter=2).fit(*first)
    rows = model.embedding_[:25] if is_embedding else data.X_new
    name = "predict_dist" if is_embedding else "predict"

    def answer() -> Any:
        result = getattr(model, name)(rows)
        return result.mean() if is_embedding else result

    expected = answer()
    scaled = []
    original = sys.modules["skgp.fitting.model"].scale_inputs

    def refit(*args: Any) -> Any:
        scaled.append(args)
        if len(scaled) == 2:
            monkeypatch.setattr("skgp.fitting.model.scale_inputs", original)
            model.fit(*other)
        return original(*args)

    monkeypatch.setattr("skgp.fitting.model.scale_inputs", refit)
    np.testing.assert_array_equal(answer(), expected)
    assert len(scaled) == 2
    if not is_embedding:
        assert model.n_features_in_ == 2


@for_representatives
def test_cross_val_score_in_two_processes(make: Any, data: Any) -> None:
    alone, parallel = (
        cross_val_score(
            make(max_iter=5, dtype="float64"),
            data.X,
            data.y,
            cv=KFold(2),
            scoring=neg_crps_scorer,
            n_jobs=n_jobs,
        )
        for n_jobs in (1, 2)
    )
    np.testing.assert_allclose(parallel, alone, rtol=1e-6)
