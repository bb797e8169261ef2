"""The state of a Markov chain as a module, so that copies, rollbacks and pickles include it."""

import torch
from torch import Tensor, nn

from skgp.core.numerics.draws import make_generator


class Chain(nn.Module):
    """State of SGHMC beside its position in K dimensions, and the last positions that it kept.

    Every `thinning`-th position takes the place of the oldest one kept. Draws come from generators
    seeded by `seed` and the number of the step.

    Parameters
    ----------
    start : Tensor of shape (K,)
    n_kept : int
        Number T of positions.
    thinning : int
    seed : int

    Attributes
    ----------
    kept : Tensor of shape (T, K)
        The starting point where there is none yet.
    momentum : Tensor of shape (K,)
    gradient : Tensor of shape (K,)
        Gradient of the energy at the last step.
    mean, square, noise : Tensor of shape (K,)
        Running means of gradients, of their squares and of half their squared steps.
    tau : Tensor of shape (K,)
        Time constant of those means: the number of steps that they reach back.
    step : Tensor of long, scalar
        Number of steps done.
    """

    kept: Tensor
    momentum: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor
    noise: Tensor
    tau: Tensor
    step: Tensor

    def __init__(self, start: Tensor, n_kept: int, thinning: int, seed: int) -> None:
        super().__init__()
        self.thinning = thinning
        self.seed = seed
        self.register_buffer("kept", start.detach().repeat(n_kept, 1))
        for name in ("momentum", "gradient", "mean", "noise"):
            self.register_buffer(name, torch.zeros_like(start))
        for name in ("square", "tau"):
            self.register_buffer(name, torch.ones_like(start))
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    @property
    def n_filled(self) -> int:
        """Number of kept positions that are not the starting point."""
        return min(int(self.step) // self.thinning, len(self.kept))

    @property
    def positions(self) -> Tensor:
        """The kept positions (n_filled, K); before the first one, the starting point alone."""
        return self.kept[: max(1, self.n_filled)]

    def generator(self) -> torch.Generator:
        """The source of the draws of the next step."""
        return make_generator(self.seed, "step", int(self.step))

    def adapt(self, gradient: Tensor) -> None:
        """Take a gradient (K,) into the running means (Springenberg et al. 2016, Section 4.2)."""
        # m <- (1 - 1/tau) m + g / tau, with tau one step longer than before, for g and g^2
        share = 1.0 / (self.tau + 1.0)
        self.mean.lerp_(gradient, share)
        self.square.lerp_(gradient.square(), share)
        # A chain moves little in a step: two gradients in a row differ by their noise.
        self.noise.lerp_(0.5 * (gradient - self.gradient).square(), share)
        # tau <- 1 + tau (1 - mean^2 / square): a drift makes it shorter, noise makes it longer
        drift = self.mean.square() / self.square.clamp_min(torch.finfo(gradient.dtype).tiny)
        self.tau.mul_(1.0 - drift.clamp_max(1.0)).add_(1.0)
        self.gradient.copy_(gradient)

    def keep(self, position: Tensor) -> None:
        """Count a step that ended at a position (K,); keep every `thinning`-th one."""
        self.step += 1
        number, rest = divmod(int(self.step), self.thinning)
        if rest == 0:
            self.kept[(number - 1) % len(self.kept)] = position
