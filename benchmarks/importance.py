"""Plain importance weighting beside the bound with a closed form: noise of gradients, and fits.

    python -m benchmarks.importance [--tables 2]

LV-GP-GP on `make_bimodal` of 500 rows, Adam. Noise is the norm of the deviations of a gradient over
200 draws, in the mean of q(u) of the last layer, of both bounds at the same model: one that "iwvi"
has fitted with that K for 20 epochs, and for 1,500.
"""

import argparse
import time

import numpy as np
import torch

from benchmarks._markdown import head, line
from skgp import IWDGPRegressor
from skgp.core.data import Batch, Targets
from skgp.core.objectives.importance import latent_loss
from skgp.core.objectives.objective import Objective, importance_weighted, plainly_weighted
from skgp.datasets import make_bimodal
from skgp.scoring import nll

N_ROWS, N_DRAWS = 500, 200
SHORT, LONG = 20, 1500  # epochs
BOUNDS = {"iwvi": importance_weighted, "iw": plainly_weighted}


def fitted(inference: str, n_importance: int, seed: int, max_iter: int = LONG) -> IWDGPRegressor:
    model = IWDGPRegressor(
        inference=inference,
        n_importance=n_importance,
        n_inducing=32,
        max_iter=max_iter,
        optimizer="adam",
        random_state=0,
    )
    return model.fit(*make_bimodal(N_ROWS, random_state=seed))


def noise(model: IWDGPRegressor, bound: Objective, seed: int) -> tuple[float, float]:
    """Value of the bound, and the noise of its gradient."""
    fitted_model = model.model_
    X, y = make_bimodal(N_ROWS, random_state=seed)
    parts = fitted_model.x_scale.apply(X), fitted_model.y_scale.apply(y.reshape(-1, 1))
    x, targets = (torch.from_numpy(part) for part in parts)
    batch = Batch(x, Targets(targets, None), None, torch.arange(len(x)))
    where = next(model.stack_.top.posterior.parameters())
    values, gradients = [], []
    for draw in range(N_DRAWS):
        generator = torch.Generator().manual_seed(draw)
        value = latent_loss(
            bound, model.stack_, fitted_model.likelihood, batch, generator, n_samples=1,
            beta_reg=0.0, n_data=float(len(x)),
        )  # fmt: skip
        (gradient,) = torch.autograd.grad(value, where)
        values.append(-value.item())
        gradients.append(gradient.flatten())
    of_draws = torch.stack(gradients)
    noise_var = (of_draws - of_draws.mean(0)).square().sum(-1).mean()
    return float(np.mean(values)), float(noise_var.sqrt())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=2)
    seeds = range(parser.parse_args().tables)
    names = ["K", "bound", "early noise", "late noise", "late value", "NLL of a fit", "its seconds"]
    lines = head(names)
    for n_importance in (1, 5, 20):
        early = [fitted("iwvi", n_importance, seed, SHORT) for seed in seeds]
        late = [fitted("iwvi", n_importance, seed) for seed in seeds]
        for name, make in BOUNDS.items():
            rows = []
            for seed in seeds:
                began = time.process_time()
                model = fitted(name, n_importance, seed)
                seconds = time.process_time() - began
                X, y = make_bimodal(1000, random_state=100 + seed)
                bound = make(n_importance)
                _, early_noise = noise(early[seed], bound, seed)
                value, late_noise = noise(late[seed], bound, seed)
                score = nll(y, model.predict_dist(X))
                rows.append([early_noise, late_noise, value, score, seconds])
            *numbers, seconds = np.mean(rows, 0)
            lines += line(
                [str(n_importance), f'"{name}"', *(f"{n:.3f}" for n in numbers), f"{seconds:.0f}"]
            )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
