"""Tasks without common inputs: two outputs, of which each row observes one, on synthetic data.

    python -m benchmarks.multi_task [--tables 5]

The first output is f(x) = sin(4 x) at 60 inputs from -1 to 0.4, the second 1 - 2 f(x) at 60 others
from -0.4 to 1, with noise of standard deviation 0.05 in units of f. Errors are root mean squares
over both outputs where only the other one was observed, in units of f, averaged over data sets.
"""

import argparse

import numpy as np
import numpy.typing as npt

import skgp
from benchmarks._markdown import head, line

Array = npt.NDArray[np.float64]

N = 60
RIGHT, LEFT = np.linspace(0.4, 1.0, 40)[:, None], np.linspace(-1.0, -0.4, 40)[:, None]
MODELS = (
    "MOGPRegressor",
    "SBGPRNRegressor",
    "GPRNRegressor",
    "NeuralMOGPRegressor",
    "NeuralSBGPRNRegressor",
    "NeuralDGPRegressor",
)


def outputs(X: Array) -> Array:
    f = np.sin(4.0 * X)
    return np.hstack([f, 1.0 - 2.0 * f])


def make_rows(seed: int) -> tuple[Array, Array]:
    """X (2 N, 1), and Y (2 N, 2) with one observed output in each row."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.uniform(-1.0, 0.4, (N, 1)), rng.uniform(-0.4, 1.0, (N, 1))])
    Y = outputs(X) + 0.05 * rng.standard_normal((2 * N, 2)) * [1.0, 2.0]
    Y[:N, 1] = Y[N:, 0] = np.nan
    return X, Y


def error(first: Array, second: Array) -> float:
    """Of the first output on the right and the second on the left."""
    misses = first - outputs(RIGHT)[:, 0], 0.5 * (second - outputs(LEFT)[:, 1])
    return float(np.sqrt(np.mean(np.square(misses))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=5)
    n_tables = parser.parse_args().tables
    errors: dict[str, list[float]] = {}
    for seed in range(n_tables):
        X, Y = make_rows(seed)
        alone = [
            skgp.SVGPRegressor(random_state=0).fit(X[rows], Y[rows, k])
            for k, rows in enumerate((slice(N), slice(N, None)))
        ]
        found = error(alone[0].predict(RIGHT), alone[1].predict(LEFT))
        errors.setdefault("a GP for each output", []).append(found)
        for name in MODELS:
            model = getattr(skgp, name)(n_inducing=20, max_iter=400, random_state=0).fit(X, Y)
            found = error(model.predict(RIGHT)[:, 0], model.predict(LEFT)[:, 1])
            errors.setdefault(f"`{name}`", []).append(found)
    lines = head(["model", "error"])
    for name, found_errors in errors.items():
        lines += line([name, f"{np.mean(found_errors):.3f}"])
    print("\n".join(lines))


if __name__ == "__main__":
    main()
