"""Training steps and predictions of skgp's estimators outside their loop, and the time of calls."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from skgp import DGPRegressor, DSPPRegressor, MOGPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.data import Batch, Targets
from skgp.core.kernels.kernel import set_passes
from skgp.core.numerics.elementwise import EAGER, Passes
from skgp.core.training.graphs import gradients_of

B = 1000  # rows of a batch

Rounds = npt.NDArray[np.float64]  # seconds (repeats, functions)
Estimator = SVGPRegressor | PPGPRRegressor | DGPRegressor | DSPPRegressor | MOGPRegressor


def make_rows(n: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features))
    return X, np.sin(X.sum(1)) + 0.1 * rng.standard_normal(n)


class OurStep:
    """One training step of an estimator's model, outside its loop; B of the rows start it.

    Adam takes the step, so that the estimator must not be one for natural gradients.
    """

    def __init__(
        self,
        estimator: Estimator,
        X: np.ndarray,
        y: np.ndarray,
        passes: Passes = EAGER,
        *,
        replays: bool = False,
    ) -> None:
        self.fitted = estimator.fit(X[:B], y[:B])
        self.model = self.fitted.model_.float()
        set_passes(self.model, passes)
        recipe = self.fitted._recipe()
        loss = partial(recipe.loss, self.model, n_data=10.0 * len(X))
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        repeats = replays and recipe.repeats(self.model)
        self.gradients = gradients_of(loss, parameters, repeats=repeats)
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
        like = self.model.log_weights
        x = torch.from_numpy(X).to(like)
        targets = torch.from_numpy(y.reshape(len(y), -1)).to(like)
        self.batch = Batch(x, Targets(targets, None), None)
        self.model.train()
        self.n_steps = 0

    def __call__(self) -> None:
        self.gradients(self.batch, self.n_steps)
        self.optimizer.step()
        self.n_steps += 1

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y at X (N, D)."""
        self.model.eval()
        mean, std = self.fitted.predict(X, return_std=True)
        return mean, std


def seconds(function: Callable[[], object]) -> float:
    """Time of one call; on one thread that of the process, which a busy machine changes less.

    With a GPU it is wall time until that has done its work.
    """
    on_gpu = torch.cuda.is_initialized()
    is_alone = torch.get_num_threads() == 1 and not on_gpu
    clock = time.process_time if is_alone else time.perf_counter
    if on_gpu:
        torch.cuda.synchronize()
    start = clock()
    function()
    if on_gpu:
        torch.cuda.synchronize()
    return clock() - start


def in_turn(functions: Sequence[Callable[[], object]], repeats: int, n_warm: int = 3) -> Rounds:
    """Times of calls made in turn."""
    for _ in range(n_warm):
        for function in functions:
            function()
    return np.array([[seconds(function) for function in functions] for _ in range(repeats)])


def ratio(rounds: Rounds, of: int, to: int) -> float:
    """Median ratio of the times of two functions that were called in turn."""
    return float(np.median(rounds[:, of] / rounds[:, to]))
