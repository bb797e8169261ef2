"""Fits, predictions and searches on local clusters of Ray and Dask.

They need the extras `ray` and `dask`, and run by `pytest -m cluster`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skgp import Checkpoint, ExactGPRegressor, SVGPRegressor
from tests.killing_callback import KillOne

# What the engines warn of in their own code is not ours to mend.
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=400)
MODEL = SVGPRegressor(
    covariance="diagonal", n_inducing=20, max_iter=20, dtype="float64", random_state=0
)
KILLED_AT = 12  # epochs


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def dataset(ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """In ten files, which Ray by itself does not give to the same worker each time."""
    folder = tmp_path_factory.mktemp("rows")
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    for k in range(10):
        table[40 * k : 40 * (k + 1)].to_parquet(folder / f"{k}.parquet")
    return ray.data.read_parquet(str(folder))


@pytest.fixture(scope="module")
def fitted(dataset: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A fit by two workers, one of which is killed, and what they have seen."""
    from skgp.ray import fit_on_ray

    folder = tmp_path_factory.mktemp("ray")
    model = clone(MODEL).set_params(checkpoint=Checkpoint(folder / "runs", every=0.0))
    model.set_callbacks(KillOne(folder, KILLED_AT))
    return fit_on_ray(model, dataset, target="y", storage_path=str(folder / "results")), folder


def test_two_workers_fit_as_one_process_does(fitted: tuple[Any, Path]) -> None:
    one = clone(MODEL).fit(X, Y)
    np.testing.assert_allclose(fitted[0].loss_curve_, one.loss_curve_, rtol=0.0, atol=1e-6)


def test_a_worker_that_is_killed_goes_on(fitted: tuple[Any, Path]) -> None:
    """It and the other one, from the last state."""
    folder = fitted[1]
    assert (folder / "killed").exists()
    seen = [[*map(int, file.read_text().split())] for file in folder.glob("*.epochs")]
    last = MODEL.max_iter
    # The first of the killed processes dies in the epoch; the other one may see its end or not.
    assert [epochs for epochs in seen if epochs[-1] == last] == [[*range(KILLED_AT, last + 1)]] * 2
    assert [*range(1, KILLED_AT + 1)] in seen


def test_predictions(dataset: Any, fitted: tuple[Any, Path]) -> None:
    from skgp.ray import predict_on_ray

    model = fitted[0]
    table = predict_on_ray(model, dataset, columns=["a", "b"]).to_pandas()
    dist = model.predict_dist(table[["a", "b"]].to_numpy())
    np.testing.assert_allclose(table["mean"], dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(table["q0.95"], dist.ppf(0.95), rtol=1e-12)


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
