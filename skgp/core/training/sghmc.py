"""Stochastic-gradient Hamiltonian Monte Carlo: an optimiser whose steps sample some parameters."""

from typing import Any

import torch
from torch import Tensor, nn

from skgp.core.training.markov_chain import Chain
from skgp.core.training.optimizers import Closure, Optimizer


class SGHMC(Optimizer):
    """Samples parameters v from exp(-U(v)) / Z, and moves all others by moving-window MCEM.

    U = n_data * loss. With the friction alpha, the length eps and the second moments V of the
    gradients, a step is (Chen, Fox and Guestrin 2014; scaled as by Springenberg et al. 2016)

        p <- (1 - alpha) p - eps^2 V^-1/2 grad U + N(0, 2 eps^2 alpha V^-1/2 - eps^4 B / V),
        v <- v + p.

    B is the variance of the gradients' noise. Springenberg et al. use V in its place, which is too
    much if a batch is the whole table. V and B are estimated in the first `n_burn_in` steps and
    stay fixed afterwards. Without noise the error of the variance is O(eps^2) in every direction.

    The others take a step at a position drawn from those that the chain has kept, where the
    gradient is an estimate of that of E log p(y, v | hyper-parameters) (Havasi et al. 2018). Only
    their step follows the rate: a chain whose steps get ever shorter would no longer move. At a
    rate of zero they rest.

    Parameters
    ----------
    parameters : list of Parameter
        The v, K numbers in all.
    chain : Chain
    others : Optimizer
        The optimiser of all other parameters.
    n_data : float
        Divisor of the loss.
    step_size : float
        The length eps.
    friction : float in (0, 1]
    n_burn_in : int
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        chain: Chain,
        others: Optimizer,
        n_data: float,
        *,
        step_size: float,
        friction: float,
        n_burn_in: int,
    ) -> None:
        self._parameters = parameters
        self._chain = chain
        self._others = others
        self._n_data = n_data
        self._squared_step = step_size**2
        self._friction = friction
        self._n_burn_in = n_burn_in

    def step(self, closure: Closure, rate: float) -> float:
        loss = closure().item()
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        generator = self._chain.generator()
        self._sample(self._n_data * _flat(gradients), generator)
        if rate > 0.0:
            self._maximise(closure, rate, generator)
        return loss

    def shorten(self, factor: float) -> None:
        self._squared_step *= factor**2
        self._others.shorten(factor)

    @torch.no_grad()
    def _sample(self, gradient: Tensor, generator: torch.Generator) -> None:
        chain = self._chain
        if int(chain.step) < self._n_burn_in:
            chain.adapt(gradient)
        # The prior N(0, I) makes every curvature, the mean of grad^2, at least one: an estimate
        # below it comes from too few gradients.
        square = chain.square.clamp_min(1.0)
        pace = self._squared_step * square.rsqrt()  # eps^2 V^-1/2
        variance = 2.0 * self._friction * pace - pace.square() * chain.noise
        deviation = variance.clamp_min(0.0).sqrt()
        xi = torch.randn(gradient.shape, generator=generator, dtype=gradient.dtype)
        momentum = chain.momentum.mul_(1.0 - self._friction)
        momentum.addcmul_(pace, gradient, value=-1.0).addcmul_(deviation, xi.to(gradient.device))
        position = _flat(self._parameters) + momentum
        self._move(position)
        chain.keep(position)

    def _maximise(self, closure: Closure, rate: float, generator: torch.Generator) -> None:
        chain = self._chain
        if chain.n_filled == 0:
            self._others.step(closure, rate)
            return
        position = _flat(self._parameters).detach()
        drawn = torch.randint(chain.n_filled, (), generator=generator)
        self._move(chain.kept[int(drawn)])
        self._others.step(closure, rate)
        self._move(position)

    @torch.no_grad()
    def _move(self, position: Tensor) -> None:
        parts = position.split([p.numel() for p in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def state_dict(self) -> dict[str, Any]:
        return self._others.state_dict()  # the chain is part of the model

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._others.load_state_dict(state)


def _flat(tensors: list[Any]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])
