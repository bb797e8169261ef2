"""Optimisers: how a step moves the parameters, given a closure that computes the gradients."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.layers.posteriors import NaturalPosterior
from skgp.core.numerics import lbfgs
from skgp.core.numerics.adam import BETAS, AdamMoments

Closure = Callable[[], Tensor]  # sets all gradients and returns the loss, detached

_LONGEST = math.log(10.0)  # log norm of a clipped gradient, relative to the usual one
_AVERAGED = 20  # steps over which the usual log norm is averaged
_HISTORY = 20  # pairs of steps and gradients from which L-BFGS estimates curvature
_LINE_SEARCH = 25  # evaluations of a line search; torch's default, max_iter * 5 // 4, is 1 here
_CONVERGED = 1e-9  # change of the loss, in nats per row, at which L-BFGS is done


def trainable(module: nn.Module, apart: Iterable[Tensor] = ()) -> list[nn.Parameter]:
    """The parameters of a module that training moves, without those that stand apart."""
    numbers = {id(p) for p in apart}
    return [p for p in module.parameters() if p.requires_grad and id(p) not in numbers]


class Optimizer(ABC):
    """Steps on the parameters of one module."""

    @property
    def is_converged(self) -> bool:
        """Whether further steps would change nothing."""
        return False

    @abstractmethod
    def step(self, closure: Closure, rate: float) -> float:
        """Take one step of a length relative to the peak; the loss before it."""

    @abstractmethod
    def shorten(self, factor: float) -> None:
        """Multiply every length of all further steps by this factor."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` restores; not a copy."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to an earlier state."""


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015).

    Parameters
    ----------
    parameters : list of Parameter
    learning_rate : float
        At the peak of the schedule.
    second_moment_decay : float in [0, 1), default=0.999
        Share of the mean squared gradient that a step keeps (beta_2 of the paper): one outlying
        gradient shortens the next 1 / (1 - beta_2) steps or so.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        learning_rate: float,
        second_moment_decay: float = BETAS[1],
    ) -> None:
        self._peak = learning_rate
        self._moments = AdamMoments(parameters, (BETAS[0], second_moment_decay))

    def step(self, closure: Closure, rate: float) -> float:
        loss = closure().item()
        self._moments.step(self._peak * rate)
        return loss

    def shorten(self, factor: float) -> None:
        self._peak *= factor

    def state_dict(self) -> dict[str, Any]:
        return self._moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._moments.load_state_dict(state)


class Clipped(Optimizer):
    """Another optimiser whose gradients are never much longer than they usually are.

    In a stream one wrong target can make a gradient a million times as long as all before it, and
    the second moments of Adam would remember it for thousands of steps. The usual norm is a running
    geometric mean, so it follows gradients that grow for good.

    Parameters
    ----------
    parameters : list of Parameter
        Whose gradients are clipped by their common norm.
    clipped : Optimizer
        The optimiser of these parameters.
    share : float, default=1.0
        By which clipped gradients are multiplied, so that rows of little weight move the parameters
        less, and neither their loss nor what is usual depends on it.
    """

    def __init__(
        self, parameters: list[nn.Parameter], clipped: Optimizer, share: float = 1.0
    ) -> None:
        self._parameters = parameters
        self._clipped = clipped
        self._share = share
        self._n_steps = 0
        self._usual = 0.0  # logarithm of the norm

    @property
    def is_converged(self) -> bool:
        return self._clipped.is_converged

    def step(self, closure: Closure, rate: float) -> float:
        return self._clipped.step(lambda: self._clip(closure()), rate)

    def _clip(self, loss: Tensor) -> Tensor:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        if norm == 0.0:
            return loss
        excess = math.log(norm) - self._usual if self._n_steps else 0.0
        factor = self._share * (math.exp(_LONGEST - excess) if excess > _LONGEST else 1.0)
        if factor != 1.0:
            for gradient in gradients:
                gradient.mul_(factor)
        if self._n_steps == 0:
            self._usual = math.log(norm)
        self._n_steps += 1
        excess = max(-_LONGEST, min(_LONGEST, excess))
        self._usual += excess / min(self._n_steps, _AVERAGED)
        return loss

    def shorten(self, factor: float) -> None:
        self._clipped.shorten(factor)

    def state_dict(self) -> dict[str, Any]:
        usual = {"n_steps": self._n_steps, "usual": self._usual}
        return {"clipped": self._clipped.state_dict(), **usual}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._clipped.load_state_dict(state["clipped"])
        self._n_steps, self._usual = state["n_steps"], state["usual"]


class NaturalGradient(Optimizer):
    """Natural-gradient steps on the posteriors, another optimiser for everything else.

    theta <- theta + rho dL/d eta, where L is the objective of all data: with rho = 1 and a batch
    of all rows the step ends at the optimal q(u) of a Gaussian likelihood (Hensman et al. 2013;
    Salimbeni et al. 2018). A step after which q(u) would have no covariance is not taken, but
    everything else moves.

    All posteriors move at once, each towards its optimum given the others. Where outputs tie them
    together that is a damped Jacobi iteration, in which long steps diverge.

    Parameters
    ----------
    posteriors : list of NaturalPosterior
    learning_rate : float in (0, 1]
        Peak of rho.
    n_data : float
        Divisor of the loss.
    others : Optimizer
    longest : callable () -> float, optional
        The largest rho of the next step.
    """

    def __init__(
        self,
        posteriors: list[NaturalPosterior],
        learning_rate: float,
        n_data: float,
        others: Optimizer,
        longest: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._posteriors = posteriors
        self._peak = learning_rate
        self._n_data = n_data
        self._others = others
        self._longest = longest

    def step(self, closure: Closure, rate: float) -> float:
        loss = self._others.step(closure, rate)
        with torch.no_grad():
            rho = min(self._peak * rate, self._longest())
            for posterior in self._posteriors:
                posterior.step(rho * self._n_data)
        return loss

    def shorten(self, factor: float) -> None:
        self._peak *= factor
        self._others.shorten(factor)

    def state_dict(self) -> dict[str, Any]:
        return self._others.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._others.load_state_dict(state)


class _Evaluation(NamedTuple):
    """A loss and its gradients at some parameters."""

    at: list[Tensor]
    loss: Tensor
    gradients: list[Tensor | None]


class LBFGS(Optimizer):
    """L-BFGS with a strong Wolfe line search, one iteration a step: for losses without noise.

    A step begins where the line search of the one before it has already evaluated the loss.

    Parameters
    ----------
    parameters : list of Parameter
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self._lbfgs = lbfgs.LBFGS(
            parameters,
            max_iter=1,
            max_eval=1 + _LINE_SEARCH,
            history_size=_HISTORY,
            line_search_fn="strong_wolfe",
        )
        self._parameters = parameters
        self._evaluations: list[_Evaluation] = []  # where the last step has ended, if it is known
        self._peak = 1.0
        self._last = float("inf")
        self._converged = False

    @property
    def is_converged(self) -> bool:
        return self._converged

    def step(self, closure: Closure, rate: float) -> float:
        self._lbfgs.param_groups[0]["lr"] = self._peak  # its line search needs no schedule
        self._evaluations = self._evaluations_here()
        known = [*self._evaluations]

        def evaluated() -> Tensor:
            if known:
                evaluation = known.pop()
                for parameter, gradient in zip(self._parameters, evaluation.gradients, strict=True):
                    parameter.grad = gradient
            else:
                loss = closure().detach()
                at = [p.detach().clone() for p in self._parameters]
                gradients = [None if p.grad is None else p.grad.clone() for p in self._parameters]
                evaluation = _Evaluation(at, loss, gradients)
                self._evaluations.append(evaluation)
            return evaluation.loss

        before: Tensor = self._lbfgs.step(evaluated)
        loss = before.item()
        self._converged = abs(self._last - loss) < _CONVERGED
        self._last = loss
        self._evaluations = self._evaluations_here()
        return loss

    def _evaluations_here(self) -> list[_Evaluation]:
        """Those that are known at the parameters as they are."""
        return [e for e in self._evaluations if all(map(torch.equal, e.at, self._parameters))]

    def shorten(self, factor: float) -> None:
        self._peak *= factor

    def state_dict(self) -> dict[str, Any]:
        return {
            "lbfgs": self._lbfgs.state[self._parameters[0]],  # where torch keeps that of all
            "evaluations": [list(evaluation) for evaluation in self._evaluations],
            "last": self._last,
            "converged": self._converged,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._lbfgs.state[self._parameters[0]] = state["lbfgs"]
        self._evaluations = [_Evaluation(*parts) for parts in state["evaluations"]]
        self._last, self._converged = state["last"], state["converged"]
