"""Time training steps and predictions of every estimator against GPyTorch, in one run.

    python -m benchmarks.speed [--threads 2] [--repeats 25] [--device cuda] [--only flat deep ...]

Both sides run float32 with the same sizes, the same optimiser and in turn, so that the ratio holds
when the machine's speed drifts; skgp's step is eager and, with `compile=True`, compiled. Roofline
is the share of the rate of a product of matrices of the same shape, counting full products only.
The last column is skgp's prediction in float64, its default. `--steps` leaves predictions out. Then
a step with latent covariates against one of our own deep GP, steps with readouts against one
without, the cost of a step of a deep sigma point process against its sizes, peak memory, and what
three restarts and four weights of the divergence cost in fits of one.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import clone
from torch import Tensor

from benchmarks._peers import (
    DGPStep,
    DSPPStep,
    PeerDGP,
    PeerDSPP,
    PeerGP,
    PeerStep,
    PredictiveStep,
    SparseStep,
)
from skgp import (
    DGPRegressor,
    DSPPRegressor,
    IWDGPRegressor,
    MOGPRegressor,
    NeuralMOGPRegressor,
    NeuralSBGPRNRegressor,
    PPGPRRegressor,
    SVGPRegressor,
)
from skgp.core.data import Batch, Targets
from skgp.core.kernels.kernel import set_passes
from skgp.core.numerics.elementwise import EAGER, Passes
from skgp.core.training.graphs import replaying

B, M = 1000, 300
WIDTH, SITES = 3, 10  # of the deep models
N_PREDICT, N_PREDICT_DEEP = 100_000, 10_000
B_MEMORY = 10_000
B_LATENT, M_LATENT, LATENT_SAMPLES, LATENT_WIDTH = 512, 128, 5, 5  # samples: K, or S without w
P, READOUT_SAMPLES = 8, 32  # outputs of the models with readouts, and draws of a step
N_HIDDEN = (8, 16, 32)
CHUNK = 2048
N_FIT, FIT_EPOCHS = 300, 20  # of whole fits
WARM = 12  # steps that are not timed: on a GPU they are replayed from the eleventh on
WEIGHTS = (0.1, 0.3, 0.5, 1.0)  # of the divergence
GROUPS = (1, 3, 4)  # GPs in one layer
GROUPED = ((240, 64), (300, 100), (300, 300), (1000, 300))  # rows, and inducing inputs
SIZES = {"n_sites": (5, 10, 20, 40), "batch_size": (500, 1000, 2000, 4000), "n_layers": (2, 3, 4)}


Rounds = npt.NDArray[np.float64]  # seconds (repeats, functions)
Estimator = SVGPRegressor | PPGPRRegressor | DGPRegressor | DSPPRegressor | MOGPRegressor


class Case(NamedTuple):
    """A model that both libraries have.

    Attributes
    ----------
    name : str
    estimator : Estimator
    peer : callable
        From rows x (B, D), y (B,) and inducing inputs Z (M, D) to GPyTorch's training step.
    covariance : str
    n_blocks : int
        How often each row passes a GP.
    n_predict : int
    """

    name: str
    estimator: Estimator
    peer: Callable[[Tensor, Tensor, Tensor], PeerStep]
    covariance: str
    n_blocks: int
    n_predict: int


def flat_cases(device: str = "cpu") -> list[Case]:
    """The estimators of one layer, at the sizes of the comparison."""
    common = {"max_iter": 1, "early_stopping": False, "batch_size": B, "random_state": 0}
    common |= {"device": device}
    rows = []
    for c in ("full", "diagonal"):
        estimator = SVGPRegressor(covariance=c, n_inducing=M, **common)
        peer = partial(flat_peer, SparseStep, c)
        rows.append(Case(f"SVGP {c}", estimator, peer, c, 1, N_PREDICT))
    for c in ("full", "diagonal", "delta", "decoupled"):
        estimator = PPGPRRegressor(covariance=c, n_inducing=M, n_inducing_mean=M, **common)
        peer = partial(flat_peer, PredictiveStep, c)
        rows.append(Case(f"PPGPR {c}", estimator, peer, c, 1, N_PREDICT))
    return rows


def flat_peer(step: type[PeerStep], covariance: str, x: Tensor, y: Tensor, Z: Tensor) -> PeerStep:
    """Step of a model of one layer."""
    return step(x, y, PeerGP(Z, covariance))


def deep_cases(device: str = "cpu") -> list[Case]:
    """The estimators of two layers."""
    common = {"width": WIDTH, "n_inducing": M, "max_iter": 1, "early_stopping": False}
    common |= {"batch_size": B, "random_state": 0, "device": device}
    n_blocks = WIDTH + SITES
    return [
        Case(
            "DSPP diagonal",
            DSPPRegressor(n_sites=SITES, **common),
            lambda x, y, Z: DSPPStep(x, y, PeerDSPP(Z, WIDTH, SITES)),
            "diagonal",
            n_blocks,
            N_PREDICT_DEEP,
        ),
        Case(
            "DGP full",
            DGPRegressor(n_samples=SITES, **common),
            lambda x, y, Z: DGPStep(x, y, PeerDGP(Z, WIDTH)),
            "full",
            n_blocks,
            N_PREDICT_DEEP,
        ),
    ]


def latent_pair(device: str = "cpu") -> tuple[Estimator, Estimator]:
    """LV-GP-GP with importance weighting, and the deep GP of as many layers, functions, samples."""
    common = {"kernel": "rbf", "n_inducing": M_LATENT, "width": LATENT_WIDTH, "max_iter": 1}
    common |= {"batch_size": B_LATENT, "random_state": 0, "device": device}
    return (
        IWDGPRegressor(
            architecture="LV-GP-GP", n_importance=LATENT_SAMPLES, optimizer="adam", **common
        ),
        DGPRegressor(n_layers=2, n_samples=LATENT_SAMPLES, **common),
    )


def latent(pair: tuple[Estimator, Estimator], n_features: int, repeats: int) -> None:
    """Print what a step of the first estimator costs in steps of the second."""
    X, y = make_rows(B_LATENT, n_features)
    steps = [OurStep(estimator, X, y, replays=estimator.device != "cpu") for estimator in pair]
    rounds = in_turn(steps, repeats, n_warm=WARM)
    a, b = np.median(rounds, 0) * 1e3
    first, second = (type(estimator).__name__ for estimator in pair)
    print(f"\ntraining step, B = {B_LATENT}, M = {M_LATENT}, D = {n_features}, float32")
    print(f"{first} {a:.1f} ms, {second} {b:.1f} ms, ratio {ratio(rounds, 0, 1):.2f}")


def readout_cases(device: str = "cpu") -> dict[str, Estimator]:
    """Half as many latent functions as outputs, mixed by a point; then what may stand between."""
    common = {"n_inducing": M, "batch_size": B, "max_iter": 1, "random_state": 0}
    common |= {"device": device}
    sampling = {"inference": "sampling", "n_samples": READOUT_SAMPLES, **common}
    analytic = {"inference": "analytic", "activation": "erf", **common}
    cases = {
        "mixing is a point": SVGPRegressor(n_latents=P // 2, **common),
        "MOGP, analytic": MOGPRegressor(**common),
    }
    for n_hidden in N_HIDDEN:
        cases[f"N-MOGP, {n_hidden} units, sampling"] = NeuralMOGPRegressor(
            n_hidden=n_hidden, **sampling
        )
    for n_hidden in N_HIDDEN:
        cases[f"N-MOGP, {n_hidden} units, analytic"] = NeuralMOGPRegressor(
            n_hidden=n_hidden, **analytic
        )
    cases["N-SBGPRN, 8 units, sampling"] = NeuralSBGPRNRegressor(n_hidden=8, **sampling)
    return cases


def readouts(cases: dict[str, Estimator], n_features: int, repeats: int) -> None:
    """Print what a step of each model with P outputs costs in steps of the first."""
    X, y = make_rows(B, n_features)
    Y = np.stack([np.roll(y, k) for k in range(P)], -1)
    models = [OurStep(case, X, Y, replays=case.device != "cpu") for case in cases.values()]
    rounds = in_turn(models, repeats, n_warm=WARM)
    steps = np.median(rounds, 0)
    print(f"\nstep with {P} outputs: B = {B}, M = {M}, D = {n_features}, S = {READOUT_SAMPLES}")
    print(f"{'':30}{'ms':>8}{'ratio':>8}")
    for name, step in zip(cases, steps, strict=True):
        print(f"{name:30}{step * 1e3:8.1f}{step / steps[0]:8.2f}")


def restarts(n_features: int, repeats: int) -> None:
    """Print what three restarts cost in fits of one, and fits with four weights one by one.

    Then what a step costs where the GPs of several outputs, each with a kernel and inducing inputs
    of its own, are one layer: the least that models side by side could cost.
    """
    X, y = make_rows(N_FIT, n_features)
    n_fits = max(2, repeats // 8)
    common = {"max_iter": FIT_EPOCHS, "early_stopping": False, "random_state": 0}
    print(f"\nfit of {N_FIT} rows, {FIT_EPOCHS} epochs, D = {n_features}, medians of {n_fits} fits")
    print(f"{'':18}{'one, s':>8}{'restarts':>10}{'weights':>10}")
    for kind in (SVGPRegressor, PPGPRRegressor, DGPRegressor, DSPPRegressor):
        one = kind(**common)
        several = clone(one).set_params(n_restarts=3)
        weighted = [clone(one).set_params(beta_reg=weight) for weight in WEIGHTS]
        fits = [partial(fit_all, models, X, y) for models in ([one], [several], weighted)]
        fits[0]()  # what a first call loads
        rounds = in_turn(fits, n_fits, n_warm=0)
        print(
            f"{kind.__name__:18}{np.median(rounds[:, 0]):8.2f}{ratio(rounds, 1, 0):10.2f}"
            f"{ratio(rounds, 2, 0):10.2f}"
        )
    print(f"\nstep of {GROUPS[1:]} GPs in one layer against one, D = {n_features}, float32")
    for rows, n_inducing in GROUPED:
        X, y = make_rows(rows, n_features)
        for kind in (SVGPRegressor, PPGPRRegressor):
            model = kind(max_iter=1, n_inducing=n_inducing, early_stopping=False, random_state=0)
            targets = [np.stack([np.roll(y, k) for k in range(n)], -1) for n in GROUPS]
            steps = [OurStep(clone(model), X, Y) for Y in targets]
            rounds = in_turn(steps, repeats)
            cost = f"{ratio(rounds, 1, 0):10.2f}{ratio(rounds, 2, 0):8.2f}"
            of = f"{kind.__name__}, {rows} rows, M = {n_inducing}"
            print(f"{of:36}{1e3 * np.median(rounds[:, 0]):8.2f} ms{cost}")


def fit_all(models: Sequence[Estimator], X: np.ndarray, y: np.ndarray) -> None:
    """Fit models one after another."""
    for model in models:
        model.fit(X, y)


def seconds(function: Callable[[], object]) -> float:
    """Time of one call; on one thread that of the process, which a busy machine changes less.

    With a GPU it is wall time until that has done its work.
    """
    settle = torch.cuda.synchronize if torch.cuda.is_initialized() else nothing
    is_alone = torch.get_num_threads() == 1 and settle is nothing
    clock = time.process_time if is_alone else time.perf_counter
    settle()
    start = clock()
    function()
    settle()
    return clock() - start


def nothing() -> None:
    """What a CPU waits for."""


def in_turn(functions: Sequence[Callable[[], object]], repeats: int, n_warm: int = 3) -> Rounds:
    """Times of calls made in turn."""
    for _ in range(n_warm):
        for function in functions:
            function()
    return np.array([[seconds(function) for function in functions] for _ in range(repeats)])


def ratio(rounds: Rounds, of: int, to: int) -> float:
    """Median ratio of the times of two functions that were called in turn."""
    return float(np.median(rounds[:, of] / rounds[:, to]))


def matmul_rate(repeats: int, device: str) -> float:
    """Floating-point operations per second of the product that dominates a step."""
    L, K = torch.randn(M, M, device=device), torch.randn(M, B, device=device)
    times = [seconds(lambda: L @ K) for _ in range(20 * repeats)]
    return float(2.0 * M * M * B / np.median(times))


def step_flops(covariance: str) -> float:
    """Operations in the products of size M x M x B of one step, forward and backward."""
    # A = L_inv Kuf, its two gradients; for a full S also S A and dS.
    return {"full": 5, "diagonal": 3, "delta": 3, "decoupled": 3}[covariance] * 2.0 * M * M * B


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
        self.loss, self.replay = replaying(loss, self.model, repeats=repeats)
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
        like = self.model.log_weights
        x = torch.from_numpy(X).to(like)
        targets = torch.from_numpy(y.reshape(len(y), -1)).to(like)
        self.batch = Batch(x, Targets(targets, None), None)
        self.model.train()
        self.n_steps = 0

    def __call__(self) -> None:
        if self.replay(self.batch, self.n_steps) is None:
            self.optimizer.zero_grad()
            self.loss(self.batch, self.n_steps).backward()
        self.optimizer.step()
        self.n_steps += 1

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y at X (N, D)."""
        self.model.eval()
        mean, std = self.fitted.predict(X, return_std=True)
        return mean, std


def make_rows(n: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features))
    return X, np.sin(X.sum(1)) + 0.1 * rng.standard_normal(n)


def compare(cases: list[Case], n_features: int, repeats: int, predicts: bool) -> None:
    """Print a row per model for inputs of one dimension."""
    X, y = make_rows(B, n_features)
    replays = cases[0].estimator.device != "cpu"
    form = "replayed" if replays else "compiled"
    rate = matmul_rate(repeats, cases[0].estimator.device)
    print(f"\nB = {B}, M = {M}, D = {n_features}; product rate {rate / 1e9:.0f} GFLOP/s (float32)")
    print(
        f"{'training step, ms':18}{'eager':>8}{form:>10}{'GPyTorch':>10}{'ratio':>8}"
        f"{form:>10}{'roofline':>10}{form:>10}"
    )
    steps = []
    for case in cases:
        ours = OurStep(case.estimator, X, y)
        # On a GPU a fit replays its steps, and compiling them adds nothing.
        other = Passes(compiled=not replays)
        second = OurStep(clone(case.estimator), X, y, other, replays=replays)
        x, t = ours.batch.x, ours.batch.targets.y[:, 0]
        peer = case.peer(x, t, x[:M].clone())
        rounds = in_turn((ours, second, peer), repeats, n_warm=WARM)
        times = np.median(rounds, 0)
        shares = case.n_blocks * step_flops(case.covariance) / rate / times
        print(
            f"{case.name:18}{times[0] * 1e3:8.1f}{times[1] * 1e3:10.1f}{times[2] * 1e3:10.1f}"
            f"{ratio(rounds, 2, 0):8.2f}{ratio(rounds, 2, 1):10.2f}"
            f"{shares[0]:10.0%}{shares[1]:10.0%}"
        )
        steps.append((case, ours, peer))
    if predicts:
        compare_predictions(steps, n_features, repeats)


def compare_predictions(
    steps: list[tuple[Case, "OurStep", PeerStep]], n_features: int, repeats: int
) -> None:
    """Print a row per model for predictions of new rows."""
    n_predict = max(case.n_predict for case, _, _ in steps)
    X_new = np.random.default_rng(1).standard_normal((n_predict, n_features))
    print(f"{f'{n_predict:,} rows, s':18}{'skgp':>8}{'GPyTorch':>10}{'ratio':>8}{'float64':>10}")
    for case, ours, peer in steps:
        predict = partial(ours.predict, X_new)
        chunk = CHUNK * 8 if ours.batch.x.is_cuda else CHUNK  # as skgp's own
        theirs = partial(peer.predict, torch.from_numpy(X_new).float(), chunk)
        rounds = in_turn((predict, theirs), max(3, repeats // 8), n_warm=1)
        times = np.median(rounds, 0)
        ours.model.double()
        exact = np.median(in_turn((predict,), 3, n_warm=1))
        print(
            f"{case.name:18}{times[0]:8.2f}{times[1]:10.2f}{ratio(rounds, 1, 0):8.2f}{exact:10.2f}"
        )


def scaling(n_features: int, repeats: int) -> None:
    """Print what a step of a deep sigma point process costs as one of its sizes grows.

    Beside the measured ratio to the first row stand that of the sizes and that of the `passes`.
    """
    print(f"\nstep of DSPPRegressor: B = {B}, M = {M}, D = {n_features}, S = {SITES}, W = {WIDTH}")
    print(f"{'':18}{'ms':>8}{'ratio':>8}{'of sizes':>10}{'of passes':>10}")
    default = {"n_sites": SITES, "batch_size": B, "n_layers": 2}
    for name, sizes in SIZES.items():
        settings = [{**default, name: size} for size in sizes]
        steps = [
            OurStep(
                DSPPRegressor(**s, width=WIDTH, n_inducing=M, max_iter=1, random_state=0),
                *make_rows(s["batch_size"], n_features),
            )
            for s in settings
        ]
        times = np.median(in_turn(steps, repeats, n_warm=1), 0)
        work = [passes(**s) for s in settings]
        for i, size in enumerate(sizes):
            print(
                f"{f'{name} = {size}':18}{times[i] * 1e3:8.1f}{times[i] / times[0]:8.2f}"
                f"{size / sizes[0]:10.2f}{work[i] / work[0]:10.2f}"
            )


def passes(n_sites: int, batch_size: int, n_layers: int) -> int:
    """Rows times GPs of a step: the first layer sees each row once, those above at every node."""
    return batch_size * (WIDTH + n_sites * (WIDTH * (n_layers - 2) + 1))


def memory_of_prediction() -> None:
    """Print the peak resident memory while 1,000,000 rows are predicted."""
    X = np.random.default_rng(0).standard_normal((1_000_000, 8))
    estimator = PPGPRRegressor(n_inducing=M, n_inducing_mean=M, max_iter=1, random_state=0)
    estimator.fit(X[:B], X[:B, 0])
    print_peak("prediction of 1,000,000 x 8", partial(estimator.predict, X, return_std=True))


def memory_of_step() -> None:
    """Print the peak resident memory of a training step of a deep sigma point process."""
    estimator = DSPPRegressor(n_sites=SITES, width=WIDTH, n_inducing=M, max_iter=1, random_state=0)
    step = OurStep(estimator, *make_rows(B_MEMORY, 8))
    print_peak(f"step of DSPPRegressor, B = {B_MEMORY:,}, S = {SITES}, M = {M}", step)


def print_peak(what: str, function: Callable[[], object]) -> None:
    """Peak resident memory of a call, whose process should do nothing else of note."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    function()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"\n{what}: peak {after / 2**20:.2f} GiB in all, "
        f"{(after - before) / 2**20:.2f} GiB above the state before the call"
    )


PEAKS = {"prediction": memory_of_prediction, "step": memory_of_step}
PARTS = ("flat", "deep", "latent", "readout", "scaling", "memory", "restarts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument("--device", default="cpu", help="of the parts flat, deep, latent, readout")
    parser.add_argument("--steps", action="store_true", help="no predictions")
    parser.add_argument("--peak", choices=PEAKS, help="only one peak memory, in this process")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peak is not None:
        PEAKS[arguments.peak]()
        return
    only, repeats, predicts = arguments.only, arguments.repeats, not arguments.steps
    print(f"torch {torch.__version__}, {arguments.threads} threads, medians of {repeats}")
    if "flat" in only:
        for n_features in (8, 32):
            compare(flat_cases(arguments.device), n_features, repeats, predicts)
    if "deep" in only:
        compare(deep_cases(arguments.device), 8, repeats, predicts)
    if "latent" in only:
        latent(latent_pair(arguments.device), 8, repeats)
    if "readout" in only:
        readouts(readout_cases(arguments.device), 8, repeats)
    if "scaling" in only:
        scaling(8, repeats)
    if "memory" in only:
        for peak in PEAKS:  # a process each, since a peak stays
            command = [sys.executable, "-m", "benchmarks.speed", "--peak", peak]
            subprocess.run([*command, "--threads", str(arguments.threads)], check=True)
    if "restarts" in only:
        restarts(6, repeats)


if __name__ == "__main__":
    main()
