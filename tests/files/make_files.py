"""Write the files that later versions have to read: `python tests/files/make_files.py`.

Once for each version of the format, whose number the names carry. Files of earlier versions stay.
"""

import json
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np

from skgp import DSPPClassifier, PPGPRRegressor, SVGPRegressor, save
from skgp.files._container import FORMAT_VERSION

HERE = Path(__file__).parent


def main() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(40, 2)), 3)
    y = np.round(np.sin(X[:, 0]) + 0.1 * rng.normal(size=40), 3)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    small: dict[str, Any] = {"n_inducing": 5, "max_iter": 3, "random_state": 0}
    prior = gpytorch.priors.GammaPrior(3.0, 6.0)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(lengthscale_prior=prior))
    models = {
        "kernel": SVGPRegressor(kernel=kernel, **small).fit(X, y),
        "stream": PPGPRRegressor(n_inducing_mean=6, **small).partial_fit(X, y),
        "classifier": DSPPClassifier(width=2, n_sites=2, **small).fit(X, labels),
    }
    expected = json.loads((HERE / "expected.json").read_text())
    for kind, model in models.items():
        name = f"{kind}-{FORMAT_VERSION}"
        save(model, HERE / f"{name}.skgp")
        case: dict[str, Any] = {"class": type(model).__name__, "X": X[:5].tolist()}
        if kind == "classifier":
            case |= {"labels": model.predict(X[:5]).tolist()}
            case |= {"probabilities": model.predict_proba(X[:5]).tolist()}
        else:
            mean, std = model.predict(X[:5], return_std=True)
            case |= {"mean": mean.tolist(), "std": std.tolist()}
        if kind == "stream":
            case["loss_curve"] = model.partial_fit(X[:5], mean).loss_curve_
        expected[name] = case
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
