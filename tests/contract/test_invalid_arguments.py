"""What cannot be right is refused with an error that names the argument."""

from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch
from contract_cases import (
    GP_REGRESSORS,
    ONE_PER_CLASS,
    REGRESSORS,
    REPRESENTATIVES,
    Case,
    Data,
    for_gps,
    for_minibatches,
    for_representatives,
    for_stacks,
)
from scipy import sparse
from sklearn.exceptions import NotFittedError
from torch import nn

from skgp import FITCRegressor, SVGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")
CASES = ONE_PER_CLASS
N, D = 60, 3


def _with(array: Any, index: Any, value: float) -> Any:
    array = np.array(array, dtype=float)
    array[index] = value
    return array


# arguments of fit that replace the good ones, and what the message must say
BAD_FIT_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "NaN in X": (lambda d: {"X": _with(d.X, (3, 1), np.nan)}, "X contains NaN"),
    "infinity in X": (lambda d: {"X": _with(d.X, (3, 1), np.inf)}, "X contains infinity"),
    "infinity in y": (lambda d: {"y": _with(d.y, 3, -np.inf)}, "y contains infinity"),
    "infinity in Y": (lambda d: {"y": _with(d.Y, (3, 1), np.inf)}, "y contains infinity"),
    "NaN in 1-D y": (lambda d: {"y": _with(d.y, 3, np.nan)}, "y contains NaN in 1 of 60 rows"),
    "empty column of Y": (
        lambda d: {"y": _with(d.Y, (slice(None), 1), np.nan)},
        r"y contains NaN in every row of column\(s\) \[1\]: drop the column",
    ),
    "no y": (lambda d: {"y": None}, "requires y to be passed"),
    "words in X": (lambda d: {"X": [["a", "b", "c"]] * N}, "could not convert string to float"),
    "words in y": (lambda d: {"y": ["a", "b"] * (N // 2)}, "could not convert string to float"),
    "categories": (
        lambda d: {"X": pd.DataFrame({"a": ["x"] * N, "b": 1.0, "c": 1.0})},
        "could not convert string to float: 'x'",
    ),
    "sparse matrix": (lambda d: {"X": sparse.csr_matrix(d.X)}, "Sparse data was passed for X"),
    "sparse array": (lambda d: {"X": sparse.csr_array(d.X)}, "Sparse data was passed for X"),
    "sparse Y": (lambda d: {"y": sparse.csr_array(d.Y)}, "Sparse data was passed for y"),
    "complex X": (lambda d: {"X": d.X + 1j}, "Complex data not supported"),
    "complex y": (lambda d: {"y": d.y + 1j}, "Complex data not supported"),
    "1-D X": (lambda d: {"X": d.X[:, 0]}, "Expected 2D array, got 1D array"),
    "3-D X": (lambda d: {"X": d.X[:, :, None]}, "Found array with dim 3"),
    "3-D y": (lambda d: {"y": d.Y[:, :, None]}, "Found array with dim 3"),
    "scalar y": (lambda d: {"y": 1.0}, "at least 1 dimension|scalar"),
    "no rows": (lambda d: {"X": d.X[:0], "y": d.y[:0]}, r"0 sample\(s\)"),
    "no columns": (lambda d: {"X": d.X[:, :0]}, r"0 feature\(s\)"),
    "no outputs": (lambda d: {"y": d.Y[:, :0]}, "shape=.60, 0."),
    "short y": (lambda d: {"y": d.y[:-1]}, r"inconsistent numbers of samples: \[60, 59\]"),
    "short weights": (lambda d: {"sample_weight": np.ones(59)}, r"sample_weight.*59"),
    "2-D weights": (
        lambda d: {"sample_weight": np.ones((N, 2))},
        r"^sample_weight must be 1D",
    ),
    "negative weights": (
        lambda d: {"sample_weight": _with(np.ones(N), 2, -1.0)},
        "Negative values in data passed to `sample_weight`",
    ),
    "NaN weights": (
        lambda d: {"sample_weight": _with(np.ones(N), 2, np.nan)},
        "sample_weight contains NaN",
    ),
    "infinite weights": (
        lambda d: {"sample_weight": _with(np.ones(N), 2, np.inf)},
        "sample_weight contains infinity",
    ),
    "zero weights": (lambda d: {"sample_weight": np.zeros(N)}, "^sample_weight must contain"),
    "column empty after weights": (
        lambda d: {
            "y": _with(d.Y, (slice(1, None), 1), np.nan),
            "sample_weight": _with(np.ones(N), 0, 0.0),
        },
        r"column\(s\) \[1\]",
    ),
    "X_val alone": (lambda d: {"X_val": d.X_new}, "X_val and y_val must be given together"),
    "y_val alone": (lambda d: {"y_val": d.y_new}, "X_val and y_val must be given together"),
    "sample_weight_val alone": (lambda d: {"sample_weight_val": np.ones(25)}, "sample_weight_val"),
    "2-D y_val for 1-D y": (
        lambda d: {"X_val": d.X, "y_val": d.Y},
        r"y_val has shape \(60, 2\).*outputs need the shape \(n,\)",
    ),
    "1-D y_val for 2-D y": (
        lambda d: {"y": d.Y, "X_val": d.X_new, "y_val": d.y_new},
        r"y_val has shape \(25,\).*outputs need the shape \(n, 2\)",
    ),
    "NaN in X_val": (
        lambda d: {"X_val": _with(d.X_new, (0, 0), np.nan), "y_val": d.y_new},
        "X_val contains NaN",
    ),
    "NaN in y_val": (
        lambda d: {"X_val": d.X_new, "y_val": _with(d.y_new, 0, np.nan)},
        "y_val contains NaN",
    ),
    "fewer columns in X_val": (
        lambda d: {"X_val": d.X_new[:, :2], "y_val": d.y_new},
        "X.* has 2 features.*expecting 3",
    ),
    "short y_val": (
        lambda d: {"X_val": d.X_new, "y_val": d.y_new[:-1]},
        r"inconsistent numbers of samples: \[25, 24\]",
    ),
    "short validation weights": (
        lambda d: {"X_val": d.X_new, "y_val": d.y_new, "sample_weight_val": np.ones(3)},
        r"^sample_weight_val.shape == \(3,\), expected \(25,\)",
    ),
    "validation weights of zero": (
        lambda d: {"X_val": d.X_new, "y_val": d.y_new, "sample_weight_val": np.zeros(25)},
        "^sample_weight_val must contain at least one non-zero number",
    ),
}


@for_representatives
@pytest.mark.parametrize(
    ("arguments", "message"), BAD_FIT_ARGUMENTS.values(), ids=BAD_FIT_ARGUMENTS.keys()
)
def test_fit_refuses(make: Any, data: Data, arguments: Any, message: str) -> None:
    model = make(max_iter=1)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(**{"X": data.X, "y": data.y, **arguments(data)})
    with pytest.raises(NotFittedError):
        model.predict(data.X)


BAD_PARAMETERS: dict[str, list[Any]] = {
    "kernel": ["matern", "", 1.5, None, gpytorch.kernels.RBFKernel],
    "n_inducing": [0, -1, 2.5, "10", None, True, [], [0, 5], [5, 2.5], [True], [[5, 5]], [5] * 7],
    "share_kernel": ["yes", None, 1.5],
    "input_warping": ["yes", None, 1.5],
    "n_inducing_mean": [-1, 2.5, None],
    "covariance": ["dense", "", None, 1],
    "beta_reg": [-0.1, np.nan, "1", None, True],
    "n_orthogonal": [-1, 1.5, None, False],
    "gamma": [1.0, 0.9, np.nan, "1.03"],
    "renyi_order": [0.0, -0.5, np.nan, np.inf, "0.5"],
    "optimizer": ["sgd", "", None],
    "feature_extractor": ["dense", 5, [], [0], [4, 2.5], [[3]], [True], nn.Linear(3, 2)],
    "weight_decay": [-1e-4, np.nan, None],
    "hidden_layer_sizes": [0, [], [0], [4, 2.5], [[3]], "wide", None, True, [4, True]],
    "dropout": [-0.1, 1.0, np.nan, "0.1", None],
    "n_samples": [0, 1.5, None, True],
    "n_prediction_samples": [0, -1, 2.5, None],
    "max_components": [0, 1.5],
    "n_posterior_samples": [0, -1, 2.5, None],
    "thinning": [0, -1, 2.5, None],
    "n_burn_in": [-1, 2.5, None],
    "step_size": [0.0, -0.1, np.nan, None, 1e300],
    "friction": [0.0, 1.1, np.nan, None],
    "n_sites": [0, 1.5, "3", None],
    "n_layers": [0, -1, 2.5, "2", None, True],
    "architecture": ["", "LV", "GP-LV", "gp-gp", "LV--GP", None, 2],
    "latent_dim": [0, -1, 1.5, None],
    "inference": ["iwv", "", None, 1],
    "n_importance": [0, -1, 2.5, None],
    "gradient": ["score", "", None, 1],
    "amortized": ["yes", None, 2],
    "width": [0, -3, 1.5, "inputs"],
    "quadrature": ["qr4", "", None, 3],
    "objective": ["bound", "", None, 1],
    "hidden_mean": ["constant", "", None, 0],
    "prior_mean": ["linear", "", None, 0],
    "initial_noise": [0.0, -1e-6, np.nan, "0.1", 1e31],
    "hidden_noise": ["yes", None, 1.5],
    "topology": ["skip", "", None, 1],
    "checkpoint": [1, 2.5, object()],
    "compile": ["auto", 1, None],
    "data_parallel": ["auto", 1, None],
    "likelihood": ["gaussian", "", None, 1],
    "memory": [1, 2.5, object()],
    "n_latents": [0, -1, 1.5, "1"],
    "n_hidden": [0, -1, 1.5, "2"],
    "activation": ["tanh", "", None, 1],
    "kl_annealing": [-1, 1.5, None],
    "max_cholesky_size": [-1, 2.5, "all", None],
    "max_iter": [0, -5, 1.5, "many", None, True],
    "batch_size": [0, -1, 10.5, None, True],
    "learning_rate_init": [0.0, -0.1, np.nan, "fast", None],
    "early_stopping": ["yes", None, 2],
    "validation_fraction": [0.0, 1.0, -0.1, 2, np.nan, None],
    "n_iter_no_change": [0, 1.5, None],
    "tol": [-1e-4, np.nan, None, True],
    "n_restarts": [0, 1.5, None],
    "normalize_X": ["yes", None],
    "normalize_y": ["yes", None],
    "noise_floor": [0.0, -1e-6, np.nan, None, 1e31],
    "jitter": [0.0, -1e-6, np.nan, None, 1.1],
    "warm_start": ["yes", None],
    "dtype": ["float16", "double", np.float32, None],
    "device": ["abacus", 0, None, "", "meta", "cuda:99"],
    "verbose": [-1, "loud", 1.5],
    "random_state": [-1, "seed", 0.5],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD_PARAMETERS.items() for value in values],
)
def test_constructor_parameters_are_validated_by_fit(name: str, value: Any, data: Data) -> None:
    cases = {case.cls: case for case in REGRESSORS if name in case.cls().get_params()}
    assert cases
    for case in cases.values():
        model = case.make(**{"max_iter": 1, name: value})
        for method in ("fit", "partial_fit"):
            if hasattr(model, method):
                with pytest.raises((ValueError, TypeError), match=f"\\b{name}\\b"):
                    getattr(model, method)(data.X, data.y)


def test_only_minibatches_choose_the_number_of_epochs(case: Case, data: Data) -> None:
    """L-BFGS ends where it converges, so nothing but a bound is to be chosen."""
    model = case.make(max_iter="auto")
    if hasattr(model, "batch_size"):
        model._validate_params()
    else:
        with pytest.raises(ValueError, match=r"\bmax_iter\b"):
            model.fit(data.X, data.y)


def test_every_constructor_parameter_has_a_bad_value() -> None:
    names = {name for case in REGRESSORS for name in case.cls().get_params(deep=False)}
    assert names == set(BAD_PARAMETERS)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_numbers_are_no_parameters(case: Case, data: Data, value: float) -> None:
    names = ("beta_reg", "learning_rate_init", "tol", "noise_floor", "jitter", "weight_decay")
    for name in case.known(dict.fromkeys(names)):
        with pytest.raises(ValueError, match=f"\\b{name}\\b"):
            case.make(**{"max_iter": 1, name: value}).fit(data.X, data.y)


@for_gps
def test_a_kernel_for_another_number_of_inputs(make: Any, data: Data) -> None:
    kernel = gpytorch.kernels.RBFKernel(ard_num_dims=D - 1)
    with pytest.raises(ValueError, match=r"kernel.*ard_num_dims"):
        make(kernel=kernel).fit(data.X, data.y)


KERNELS = gpytorch.kernels
BAD_KERNELS: dict[str, Any] = {
    "active_dims": KERNELS.RBFKernel(active_dims=[D + 4]),
    "batch": KERNELS.RBFKernel(batch_shape=torch.Size([2])),
    "batch of one": KERNELS.RBFKernel(batch_shape=torch.Size([1])),
    "tasks": KERNELS.MultitaskKernel(KERNELS.RBFKernel(), num_tasks=2),
    "derivatives": KERNELS.RBFKernelGrad(),
    "one set of inputs": KERNELS.InducingPointKernel(
        KERNELS.RBFKernel(), torch.eye(2, D), gpytorch.likelihoods.GaussianLikelihood()
    ),
    "domain": KERNELS.CylindricalKernel(2, KERNELS.RBFKernel()),
    "grid": KERNELS.GridInterpolationKernel(KERNELS.RBFKernel(), grid_size=8, num_dims=D + 1),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of the grid's interpolation
@pytest.mark.only(tuple(case for case in REPRESENTATIVES if case in GP_REGRESSORS))
@pytest.mark.parametrize("kernel", BAD_KERNELS.values(), ids=BAD_KERNELS)
def test_a_kernel_that_is_no_covariance_of_the_inputs(make: Any, data: Data, kernel: Any) -> None:
    message = r"^kernel \w+Kernel\w* (cannot be evaluated at inputs with \d columns|has a block of)"
    with pytest.raises(ValueError, match=message):
        make(kernel=kernel, max_iter=1).fit(data.X, data.y)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_a_kernel_that_no_checkpoint_can_follow(data: Data) -> None:
    """Linear operators unpack what they saved twice, and torch lets a checkpoint do so once."""
    kernel = KERNELS.GridInterpolationKernel(KERNELS.RBFKernel(), grid_size=8, num_dims=D)
    with pytest.raises(ValueError, match="kernel cannot be computed anew"):
        FITCRegressor(kernel=kernel).fit(data.X, data.y)
    model = FITCRegressor(kernel=KERNELS.RQKernel() + KERNELS.ConstantKernel(), max_iter=1)
    assert model.fit(data.X, data.y).n_iter_ == 1


def test_a_kernel_of_half_precision_trains(data: Data) -> None:
    model = SVGPRegressor(kernel=KERNELS.RBFKernel().half(), max_iter=1, n_inducing=8)
    assert np.isfinite(model.fit(data.X, data.y).predict(data.X_new)).all()


@for_stacks
@pytest.mark.parametrize(("target", "n_latents"), [("Y", 3), ("y", 2)])
def test_more_latents_than_outputs(make: Any, data: Data, target: str, n_latents: int) -> None:
    with pytest.raises(ValueError, match=f"n_latents={n_latents} exceeds"):
        make(n_latents=n_latents).fit(data.X, getattr(data, target))


@for_representatives
def test_too_few_rows_for_early_stopping(make: Any, data: Data) -> None:
    model = make(early_stopping=True)
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 leaves no"):
        model.fit(data.X[:1], data.y[:1])
    model.set_params(validation_fraction=0.99)
    with pytest.raises(ValueError, match="validation_fraction"):
        model.fit(data.X[:3], data.y[:3])


@for_representatives
def test_the_only_row_that_observes_an_output_is_not_held_out(make: Any, data: Data) -> None:
    Y = _with(data.Y, (slice(1, None), 1), np.nan)
    model = make(early_stopping=True, validation_fraction=0.9, max_iter=1)
    for seed in range(4):
        model.set_params(random_state=seed).fit(data.X, Y)
        # The only target is the offset of its output, which it would not be without the row.
        assert model.model_.y_scale.offset[1] == pytest.approx(Y[0, 1], rel=1e-12)


@for_representatives
@pytest.mark.parametrize(
    "method",
    ["predict", "predict_dist", "predict_proba", "sample_y", "predict_interval"],
)
def test_prediction_refuses(make: Any, data: Data, method: str) -> None:
    model = make(max_iter=1).fit(data.X, data.y)
    assert_refuses_bad_inputs(getattr(model, method), data)


@for_gps
def test_prediction_of_the_latent_function_refuses(make: Any, data: Data) -> None:
    assert_refuses_bad_inputs(make(max_iter=1).fit(data.X, data.y).predict_latent, data)


def assert_refuses_bad_inputs(predict: Any, data: Data) -> None:
    bad = [
        (data.X[:, :2], "X has 2 features, but .* is expecting 3"),
        (_with(data.X, (0, 0), np.nan), "X contains NaN"),
        (_with(data.X, (0, 0), np.inf), "X contains infinity"),
        (data.X[0], "Reshape your data"),
        (data.X[None], "Found array with dim 3"),
        (data.X[:0], r"0 sample\(s\)"),
        (sparse.csr_array(data.X), "Sparse data was passed for X"),
        (data.X + 1j, "Complex data not supported"),
        ([["a", "b", "c"]], "could not convert string to float"),
    ]
    for X, message in bad:
        with pytest.raises((ValueError, TypeError), match=message):
            predict(X)


@for_representatives
def test_columns_that_hold_no_numbers_are_named_with_a_remedy(make: Any, data: Data) -> None:
    X = pd.DataFrame(data.X, columns=["area", "rooms", "age"])
    labels = pd.DataFrame({"town": ["Lund", "Ystad"] * (N // 2)})
    gaps = X.assign(age=_with(data.X[:, 2], 5, np.nan))
    model = make(max_iter=1).fit(X, data.y)
    for bad, message in [
        (X.assign(rooms=labels.town), r"X holds text in column\(s\) \['rooms'\].*OneHotEncoder"),
        (X.assign(rooms=labels.town.astype("category")), r"text in column\(s\) \['rooms'\]"),
        (gaps.assign(area=labels.town), r"text in column\(s\) \['area'\]"),
        (gaps, r"^Input X contains NaN in column\(s\) \['age'\]: .*SimpleImputer.*$"),
        (X.assign(area=np.inf, age=np.inf), r"infinity.* in column\(s\) \['area', 'age'\]: "),
    ]:
        for call in (lambda bad: make(max_iter=1).fit(bad, data.y), model.predict):
            with pytest.raises(ValueError, match=message):
                call(bad)


def test_text_in_targets_and_weights_is_named() -> None:
    X, words = np.zeros((4, 1)), ["a", "b"] * 2
    for arguments, message in [
        ({"y": words}, "^y holds text: .*classifier for labels"),
        ({"y": pd.DataFrame({"u": [1.0, 2.0, 3.0, 4.0], "v": words})}, r"y holds .*\['v'\]"),
        ({"y": np.arange(4), "sample_weight": words}, "^sample_weight holds text: "),
        ({"y": np.arange(4), "sample_weight": "balanced"}, "^sample_weight holds text: "),
    ]:
        with pytest.raises(ValueError, match=message):
            SVGPRegressor(max_iter=1).fit(X, **arguments)


def test_message_about_many_columns_names_the_first() -> None:
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\]: "):
        SVGPRegressor().fit(np.full((4, 12), np.nan), np.arange(4))


@pytest.mark.only(REPRESENTATIVES[:1])
@pytest.mark.parametrize(
    "bad",
    [
        torch.ones(N, D, requires_grad=True),
        np.array([[10**400] * D] * N, dtype=object),
        pd.DataFrame(np.ones((N, D)), columns=["a", "a", "b"]),
    ],
    ids=["gradient", "huge integers", "equal columns"],
)
def test_what_cannot_be_read_is_named(make: Any, data: Data, bad: Any) -> None:
    fit, predict = make(max_iter=1).fit, make(max_iter=1).fit(data.X, data.y).predict
    calls = {
        "X": lambda: fit(bad, data.y),
        "X_val": lambda: fit(data.X, data.y, X_val=bad, y_val=data.y),
    }
    if isinstance(bad, np.ndarray):
        calls["X"] = lambda: predict(bad)
    if not isinstance(bad, pd.DataFrame):
        calls |= {
            "y": lambda: fit(data.X, bad[:, 0]),
            "y_val": lambda: fit(data.X, data.y, X_val=data.X, y_val=bad[:, 0]),
            "sample_weight": lambda: fit(data.X, data.y, bad[:, 0]),
        }
    for name, call in calls.items():
        with pytest.raises((ValueError, TypeError), match=f"^{name} cannot be read as an array"):
            call()


@for_representatives
def test_arguments_of_predictions_are_checked(make: Any, data: Data) -> None:
    model = make(max_iter=1).fit(data.X, data.y)
    for q in (1.5, -0.1, np.nan, [[0.5]]):
        with pytest.raises(ValueError, match=r"\bq must"):
            model.predict_quantiles(data.X, q)
    for coverage in (1.5, -0.1, np.nan, [0.5]):
        with pytest.raises(ValueError, match="coverage must"):
            model.predict_interval(data.X, coverage)
    for n_samples in (-1, 2.5, "many"):
        with pytest.raises((TypeError, ValueError), match="n_samples"):
            model.sample_y(data.X, n_samples)
    with pytest.raises(RuntimeError, match="At most one of return_std or return_cov"):
        model.predict(data.X, return_std=True, return_cov=True)


def _fitted_to_resume(make: Any, X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Fitted models with each method by which training goes on."""
    warm = make(max_iter=1, warm_start=True).fit(X, y)
    if not hasattr(warm, "partial_fit"):
        return [(warm, warm.fit)]
    stream = make(max_iter=1).fit(X, y)
    return [(warm, warm.fit), (stream, stream.partial_fit)]


@pytest.mark.parametrize(("first", "second"), [("y", "Y"), ("Y", "y")])
def test_resumed_training_refuses_other_outputs(
    make: Any, data: Data, first: str, second: str
) -> None:
    for _, resume in _fitted_to_resume(make, data.X, getattr(data, first)):
        with pytest.raises(ValueError, match="outputs"):
            resume(data.X, getattr(data, second))


def test_resumed_training_refuses_other_inputs(make: Any, data: Data) -> None:
    for model, resume in _fitted_to_resume(make, data.X, data.y):
        with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
            resume(data.X[:, :2], data.y)
        np.testing.assert_array_equal(
            model.predict(data.X_new), make(max_iter=1).fit(data.X, data.y).predict(data.X_new)
        )


@for_minibatches
def test_partial_fit_refuses(make: Any, data: Data) -> None:
    with pytest.raises(ValueError, match="early_stopping"):
        make(early_stopping=True).partial_fit(data.X, data.y)
    for n_total in (0, -5, np.nan, np.inf, "all"):
        with pytest.raises((ValueError, TypeError), match="n_total"):
            make().partial_fit(data.X, data.y, n_total=n_total)
    with pytest.raises(ValueError, match="y contains NaN in 1 of 60 rows"):
        make().partial_fit(data.X, _with(data.y, 0, np.nan))
