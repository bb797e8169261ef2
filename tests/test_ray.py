"""Fits, predictions and searches on local clusters of Ray and Dask.

They need the extras `ray` and `dask`, and run by `pytest -m cluster`.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from skgp import ExactGPRegressor, SVGPRegressor

# What the engines warn of in their own code is not ours to mend.
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=400)
MODEL = SVGPRegressor(
    covariance="diagonal", n_inducing=20, max_iter=20, dtype="float64", random_state=0
)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture
def dataset(ray: Any) -> Any:
    return ray.data.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}))


def test_two_workers_fit_as_one_process_does(dataset: Any, tmp_path: Any) -> None:
    from skgp.ray import fit_on_ray, predict_on_ray

    model = fit_on_ray(MODEL, dataset, target="y", storage_path=str(tmp_path))
    one = SVGPRegressor(**MODEL.get_params()).fit(X, Y)
    np.testing.assert_allclose(model.loss_curve_, one.loss_curve_, rtol=0.0, atol=1e-6)
    table = predict_on_ray(model, dataset, columns=["a", "b"]).to_pandas()
    dist = model.predict_dist(table[["a", "b"]].to_numpy())
    np.testing.assert_allclose(table["mean"], dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(table["q0.95"], dist.ppf(0.95), rtol=1e-12)


def test_a_worker_that_is_killed_does_not_end_the_fit(dataset: Any, tmp_path: Any) -> None:
    from skgp.ray import fit_on_ray

    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 120.0
        while not killed and time.monotonic() < deadline:
            time.sleep(0.5)
            for path in os.listdir("/proc"):
                if path.isdigit():
                    try:
                        with open(f"/proc/{path}/cmdline", "rb") as file:
                            is_worker = b"RayTrainWorker" in file.read()
                    except OSError:
                        continue
                    if is_worker:
                        time.sleep(3.0)  # some way into the fit
                        os.kill(int(path), signal.SIGKILL)
                        killed.append(int(path))
                        return

    thread = threading.Thread(target=kill)
    thread.start()
    model = fit_on_ray(MODEL, dataset, target="y", storage_path=str(tmp_path))
    thread.join()
    assert killed
    one = SVGPRegressor(**MODEL.get_params()).fit(X, Y)
    np.testing.assert_allclose(model.loss_curve_, one.loss_curve_, rtol=0.0, atol=1e-6)


def test_refusals(dataset: Any) -> None:
    from skgp.ray import fit_on_ray

    with pytest.raises(ValueError, match="no data_parallel"):
        fit_on_ray(ExactGPRegressor(), dataset, target="y")
    with pytest.raises(ValueError, match="no column 'z'"):
        fit_on_ray(MODEL, dataset, target="z")


def search() -> GridSearchCV:
    return GridSearchCV(MODEL, {"n_inducing": [5, 10]}, cv=2)


def test_a_search_on_ray(ray: Any) -> None:
    from ray.util.joblib import register_ray

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        on_ray = search().set_params(n_jobs=2).fit(X, Y)
    here = search().fit(X, Y)
    for result in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(on_ray.cv_results_[result], here.cv_results_[result])


def test_a_search_on_dask() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as local,
        distributed.Client(local),
        joblib.parallel_backend("dask"),
    ):
        on_dask = search().fit(X, Y)
    here = search().fit(X, Y)
    np.testing.assert_array_equal(
        on_dask.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"]
    )
