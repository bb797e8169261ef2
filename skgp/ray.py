"""Fits and predictions on a Ray cluster, by Ray's own engines; needs the extra `ray`."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

import joblib
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

__all__ = ["fit_on_ray", "predict_on_ray"]

Array = npt.NDArray[Any]
EstimatorT = TypeVar("EstimatorT", bound=BaseEstimator)

_FILE: Final = "estimator.joblib"
_CHUNK: Final = 65_536  # rows


def fit_on_ray(
    estimator: EstimatorT,
    dataset: Any,
    *,
    target: str | Sequence[str],
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    num_workers: int = 2,
    use_gpu: bool = False,
    storage_path: str | None = None,
    max_failures: int = 3,
) -> EstimatorT:
    """Fit an estimator on a Ray data set by several workers, each with a part of the rows.

    Ray Train's `TorchTrainer` starts the workers, and starts all of them anew if one dies. Ray Data
    gives each of them its part, which has to fit into the worker's memory in float32, and leaves
    out fewer than `num_workers` rows if they are not a multiple. The workers train by
    `data_parallel=True`.

    Parameters
    ----------
    estimator : estimator with the parameter `data_parallel`
        Not changed. Its `random_state` is an integer. With `checkpoint`, a folder that all nodes
        see, workers that are started anew go on from the last state, and a fit that is started
        again with the same rows too; without, they begin again.
    dataset : ray.data.Dataset
        With numbers in the columns that are used; for instance of `ray.data.read_parquet`.
    target : str or list of str
        Column of y, or columns of several outputs.
    columns : list of str, optional
        Columns of the inputs. None stands for all others.
    sample_weight : str, optional
        Column of the weights of the rows.
    num_workers : int
    use_gpu : bool
        Whether each worker has a GPU; set `device="cuda"` of the estimator too.
    storage_path : str, optional
        Where Ray keeps the fitted estimator: a folder or a bucket that all nodes see.
    max_failures : int
        How often workers that died are started anew.

    Returns
    -------
    estimator
        A fitted clone.

    Raises
    ------
    ImportError
        If Ray is missing.
    ValueError
        If the estimator has no `data_parallel`, or a column is unknown.
    ray.train.TrainingFailedError
        If the fit fails; its cause is the error of `fit`.
    """
    from ray.train import DataConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    estimator = clone(estimator)
    if "data_parallel" not in estimator.get_params(deep=False):
        raise ValueError(
            f"{type(estimator).__name__} has no data_parallel: Ray can search over its parameters "
            "or predict by it, but not fit it by several workers"
        )
    checkpoint = estimator.checkpoint
    estimator.set_params(data_parallel=True, checkpoint=_absolute(checkpoint))
    outputs = [target] if isinstance(target, str) else list(target)
    weights = [] if sample_weight is None else [sample_weight]
    known = dataset.columns()
    others = [c for c in known if c not in (*outputs, *weights)]
    inputs = others if columns is None else list(columns)
    unknown = [c for c in (*inputs, *outputs, *weights) if c not in known]
    if unknown:
        raise ValueError(f"the data set has no column {', '.join(map(repr, unknown))}")
    # A worker that is started anew has to get the same rows again, which Ray's defaults do not say.
    options = DataConfig.default_ingest_options()
    options.preserve_order = True
    trainer = TorchTrainer(
        _fit_part,
        train_loop_config={
            "estimator": estimator,
            "inputs": inputs,
            "target": target if isinstance(target, str) else outputs,
            "weight": sample_weight,
        },
        torch_config=TorchConfig(backend="nccl" if use_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=use_gpu),
        run_config=RunConfig(
            storage_path=storage_path, failure_config=FailureConfig(max_failures=max_failures)
        ),
        dataset_config=DataConfig(execution_options=options, enable_shard_locality=False),
        datasets={"train": dataset.select_columns([*inputs, *outputs, *weights])},
    )
    with trainer.fit().checkpoint.as_directory() as folder:
        fitted: EstimatorT = joblib.load(Path(folder) / _FILE)
    fitted.set_params(data_parallel=False, checkpoint=checkpoint)
    return fitted


def predict_on_ray(
    model: Any,
    dataset: Any,
    *,
    columns: Sequence[str],
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    concurrency: int | None = None,
) -> Any:
    """Predictions for the rows of a Ray data set, by Ray Data's `map_batches`.

    Parameters
    ----------
    model : fitted regressor of one output
    dataset : ray.data.Dataset
    columns : list of str
        Columns of the inputs, in the order of the fit.
    quantiles : sequence of float
        Levels.
    concurrency : int, optional
        Number of workers; Ray decides if None.

    Returns
    -------
    ray.data.Dataset
        The rows with the further columns `mean`, `std` and one `q0.05` for each level. Nothing is
        computed before it is read.
    """
    check_is_fitted(model)
    predict = _Predict(model, list(columns), list(quantiles))
    return dataset.map_batches(predict, batch_size=_CHUNK, concurrency=concurrency)


class _Predict:
    """Adds predictions to a batch of columns."""

    def __init__(self, model: Any, columns: list[str], quantiles: list[float]) -> None:
        self.model = model
        self.columns = columns
        self.quantiles = quantiles

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        dist = self.model.predict_dist(_matrix(batch, self.columns, np.float64))
        levels = {f"q{level:g}": dist.ppf(level) for level in self.quantiles}
        return {**batch, "mean": dist.mean(), "std": dist.std(), **levels}


def _fit_part(config: dict[str, Any]) -> None:
    """Fit the rows of this worker together with the others; the first one reports the model."""
    import ray.train

    target, inputs, weight = config["target"], config["inputs"], config["weight"]
    outputs = [target] if isinstance(target, str) else target
    batches = list(
        ray.train.get_dataset_shard("train").iter_batches(batch_size=_CHUNK, batch_format="numpy")
    )
    X = np.concatenate([_matrix(batch, inputs, np.float32) for batch in batches])
    y = np.concatenate([_matrix(batch, outputs, np.float64) for batch in batches])
    w = None if weight is None else np.concatenate([batch[weight] for batch in batches])
    estimator = config["estimator"].fit(X, y[:, 0] if isinstance(target, str) else y, w)
    checkpoint = None
    with tempfile.TemporaryDirectory() as folder:
        if ray.train.get_context().get_world_rank() == 0:
            joblib.dump(estimator, Path(folder) / _FILE)
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"loss": estimator.loss_curve_[-1]}, checkpoint=checkpoint)


def _absolute(checkpoint: Any) -> Any:
    """The same place for workers, which are started in folders of their own."""
    if checkpoint is None:
        return None
    if isinstance(checkpoint, str | PathLike):
        return Path(checkpoint).absolute()
    return replace(checkpoint, path=Path(checkpoint.path).absolute())


def _matrix(batch: Mapping[str, Array], columns: Sequence[str], dtype: Any) -> Array:
    return np.column_stack([np.asarray(batch[c], dtype=dtype) for c in columns])
