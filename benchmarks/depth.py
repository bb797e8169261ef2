"""Time training steps of deep GPs against their depth, at the sizes of the paper's tables 3 and 4.

    python -m benchmarks.depth [--threads 1] [--repeats 15]

10,000 rows a step, RBF kernel, hidden layers of one function, one sample, Adam (doubly stochastic
paper; it does not say how many inputs, here 8). Both libraries run in float32 and in turn; on one
thread the clock is that of the processor. The paper's seconds are those of eight cores.
"""

import argparse

import numpy as np
import torch

from benchmarks._markdown import head, line
from benchmarks._peers import DGPStep, PeerDGP, PeerGP, PeerStep, SparseStep
from benchmarks._render import published
from benchmarks.speed import Estimator, OurStep, in_turn, make_rows, ratio
from skgp import DGPRegressor, SVGPRegressor

B, N_FEATURES = 10_000, 8
M = 100
SIZES = {"SGP": (1, M), "SGP 500": (1, 500)} | {f"DGP {depth}": (depth, M) for depth in range(2, 6)}


def estimator_of(n_layers: int, n_inducing: int) -> Estimator:
    """Our model of one layer or more, to be fitted for one step."""
    common = {"kernel": "rbf", "n_inducing": n_inducing, "batch_size": B, "max_iter": 1}
    common |= {"early_stopping": False, "random_state": 0}
    if n_layers == 1:
        return SVGPRegressor(**common)
    return DGPRegressor(n_layers=n_layers, width=1, n_samples=1, **common)


def peer_of(n_layers: int, n_inducing: int, ours: OurStep) -> PeerStep:
    """GPyTorch's step of the same model on the same rows."""
    x, y = ours.batch.x, ours.batch.targets.y[:, 0]
    Z = x[:n_inducing].clone()
    if n_layers == 1:
        return SparseStep(x, y, PeerGP(Z, "full", "rbf"))
    return DGPStep(x, y, PeerDGP(Z, 1, n_layers, "rbf"), n_samples=1)


def table(repeats: int) -> list[str]:
    """Lines of Markdown: seconds of a step, and what it costs in steps of the first model."""
    X, y = make_rows(B, N_FEATURES)
    printed = published({"paper": "dsvi2017"})
    theirs = {name: printed["Table 3", "minibatch-10000", name, "cpu_seconds"] for name in SIZES}
    names = ["model", "skgp, s", "GPyTorch, s", "ratio", "paper, s"]
    lines = head([*names, "skgp, in SGP", "GPyTorch, in SGP", "paper, in SGP"])
    first: list[float] = []
    for name, (n_layers, n_inducing) in SIZES.items():
        ours = OurStep(estimator_of(n_layers, n_inducing), X, y)
        rounds = in_turn((ours, peer_of(n_layers, n_inducing, ours)), repeats)
        times = [*np.median(rounds, 0), theirs[name]]
        first = first or times
        lines += line(
            [
                name,
                *(f"{seconds:.3f}" for seconds in times[:2]),
                f"{ratio(rounds, 1, 0):.2f}",
                f"{times[2]:.2f}",
                *(f"{seconds / base:.1f}" for seconds, base in zip(times, first, strict=True)),
            ]
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, threads {arguments.threads}, medians of {arguments.repeats}")
    print("\n".join(table(arguments.repeats)))


if __name__ == "__main__":
    main()
