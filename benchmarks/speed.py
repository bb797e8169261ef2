"""Time one training step and one prediction of every estimator against GPyTorch, in one run.

    python -m benchmarks.speed [--threads 2] [--repeats 25] [--memory]

Both sides run float32 with the same sizes, the same optimiser and in turn, so that the ratio holds
when the machine's speed drifts. The last column is skgp's prediction in float64, its default.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from benchmarks._peers import PeerStep
from skgp import PPGPRRegressor, SVGPRegressor
from skgp.core.likelihoods import Targets
from skgp.core.objectives import Batch

B, M = 1000, 300
N_PREDICT = 100_000


class Case(NamedTuple):
    """A model that both libraries have."""

    name: str
    estimator: SVGPRegressor | PPGPRRegressor
    covariance: str
    predictive: bool


def cases() -> list[Case]:
    """The estimators of the package, at the sizes of the comparison."""
    common = {"max_iter": 1, "batch_size": B, "random_state": 0}
    rows = [
        Case(f"SVGP {c}", SVGPRegressor(covariance=c, n_inducing=M, **common), c, False)
        for c in ("full", "diagonal")
    ]
    for c in ("full", "diagonal", "delta", "decoupled"):
        estimator = PPGPRRegressor(covariance=c, n_inducing=M, n_inducing_mean=M, **common)
        rows.append(Case(f"PPGPR {c}", estimator, c, True))
    return rows


def seconds(function: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(
    ours: Callable[[], object], peer: Callable[[], object], repeats: int
) -> tuple[float, float, float]:
    """Medians of both times and of their ratio peer / ours, from calls made in turn."""
    for _ in range(3):
        ours(), peer()
    pairs = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    a, b = zip(*pairs, strict=True)
    ratio = statistics.median(q / p for p, q in pairs)
    return statistics.median(a), statistics.median(b), ratio


def matmul_rate(repeats: int) -> float:
    """Floating-point operations per second of the product that dominates a step."""
    L, K = torch.randn(M, M), torch.randn(M, B)
    times = [seconds(lambda: L @ K) for _ in range(20 * repeats)]
    return 2.0 * M * M * B / statistics.median(times)


def step_flops(covariance: str) -> float:
    """Operations in the products of size M x M x B of one step, forward and backward."""
    # A = L_inv Kuf, its two gradients; for a full S also S A and dS.
    return {"full": 5, "diagonal": 3, "delta": 3, "decoupled": 3}[covariance] * 2.0 * M * M * B


class OurStep:
    """One training step of an estimator's model, outside its loop."""

    def __init__(self, case: Case, X: np.ndarray, y: np.ndarray) -> None:
        self.fitted = case.estimator.fit(X, y)
        model = self.fitted.model_.float()
        self.loss = self.fitted._candidate(model, 10.0 * B).loss
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
        x = torch.from_numpy(X).float()
        self.batch = Batch(x, Targets(torch.from_numpy(y).float().unsqueeze(-1), None), None)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.batch).backward()
        self.optimizer.step()


def compare(n_features: int, repeats: int) -> None:
    """Print a row per model for inputs of one dimension."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((B, n_features))
    y = np.sin(X.sum(1)) + 0.1 * rng.standard_normal(B)
    X_new = rng.standard_normal((N_PREDICT, n_features))
    rate = matmul_rate(repeats)
    print(f"\nB = {B}, M = {M}, D = {n_features}; product rate {rate / 1e9:.0f} GFLOP/s (float32)")
    print(f"{'':18}{'training step, ms':^32}{'':10}{'100,000 rows, s':^40}")
    print(
        f"{'model':18}{'skgp':>8}{'GPyTorch':>10}{'ratio':>8}{'roofline':>10}"
        f"{'skgp':>12}{'GPyTorch':>10}{'ratio':>8}{'float64':>10}"
    )
    for case in cases():
        ours = OurStep(case, X, y)
        x, t = ours.batch.x, ours.batch.targets.y[:, 0]
        peer = PeerStep(x, t, x[:M].clone(), case.covariance, case.predictive)
        a, b, ratio = alternate(ours, peer, repeats)
        share = step_flops(case.covariance) / rate / a
        fitted = ours.fitted
        x_new = torch.from_numpy(X_new).float()
        p, q, p_ratio = alternate(
            lambda: fitted.predict(X_new, return_std=True),  # noqa: B023 - called in this turn
            lambda: peer.predict(x_new, 2048),  # noqa: B023
            max(3, repeats // 8),
        )
        fitted.model_.double()
        exact = statistics.median(
            seconds(lambda: fitted.predict(X_new, return_std=True))  # noqa: B023
            for _ in range(3)
        )
        print(
            f"{case.name:18}{a * 1e3:8.1f}{b * 1e3:10.1f}{ratio:8.2f}{share:10.0%}"
            f"{p:12.2f}{q:10.2f}{p_ratio:8.2f}{exact:10.2f}"
        )


def peak_memory() -> None:
    """Peak resident memory while 1,000,000 rows are predicted; a process of its own runs it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 8))
    estimator = PPGPRRegressor(n_inducing=M, n_inducing_mean=M, max_iter=1, random_state=0)
    estimator.fit(X[:B], X[:B, 0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    estimator.predict(X, return_std=True)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"\nprediction of 1,000,000 x 8: peak {after / 2**20:.2f} GiB in all, "
        f"{(after - before) / 2**20:.2f} GiB above the state before the call"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--memory", action="store_true", help="only the peak memory of prediction")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory:
        peak_memory()
        return
    print(f"torch {torch.__version__}, {arguments.threads} threads, medians of {arguments.repeats}")
    for n_features in (8, 32):
        compare(n_features, arguments.repeats)
    subprocess.run([sys.executable, "-m", "benchmarks.speed", "--memory"], check=True)


if __name__ == "__main__":
    main()
