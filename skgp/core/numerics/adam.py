"""Moments of gradients, and the steps of Adam by them."""

from collections.abc import Iterable
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import hardshrink
from torch.optim.adam import adam

BETAS: Final = (0.9, 0.999)  # beta_1 and beta_2 of the paper
_EPSILON: Final = 1e-8  # the paper's, too
_NEGLIGIBLE: Final = 1e-30  # smaller moments are set to zero: their root is far below epsilon
_SWEEP: Final = 100  # steps until that is done; a moment falls by 1e-5 at most meanwhile


class AdamMoments:
    """First and second moments of gradients, as Adam (Kingma and Ba 2015) keeps them.

    The steps are torch's function, not its class: that imports a compiler, which takes longer than
    a short fit.

    Parameters
    ----------
    parameters : iterable of Tensor
        Those without a gradient do not move.
    betas : tuple of float
        Shares of the two moments that a step keeps.
    """

    def __init__(self, parameters: Iterable[Tensor], betas: tuple[float, float] = BETAS) -> None:
        self._parameters = list(parameters)
        self._betas = betas
        self._states: dict[int, dict[str, Tensor]] = {}
        self._n_steps = 0

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Move the parameters against the moments, with the gradients that they have."""
        moving = {i: p for i, p in enumerate(self._parameters) if p.grad is not None}
        for i, p in moving.items():
            if i not in self._states:
                self._states[i] = _first(p)
        states = [self._states[i] for i in moving]
        beta_1, beta_2 = self._betas
        adam(
            list(moving.values()),
            [p.grad for p in moving.values() if p.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=beta_1,
            beta2=beta_2,
            lr=learning_rate,
            weight_decay=0.0,
            eps=_EPSILON,
            maximize=False,
        )
        self._n_steps += 1
        if self._n_steps % _SWEEP == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Set negligible moments to zero before they become denormal.

        The moments of a parameter without gradients decay to denormal numbers, which never reach
        zero and slow every step down.
        """
        for state in self._states.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(hardshrink(state[name], _NEGLIGIBLE))

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` restores; not a copy."""
        return {"states": self._states, "n_steps": self._n_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to an earlier state, perhaps in another dtype or on another device.

        Raises
        ------
        ValueError
            If it is that of other parameters: a fused step does not look at sizes, and would write
            beyond the end of a moment.
        """
        if "adam" in state:  # of torch's class, in older files
            state = {"states": state["adam"]["state"], "n_steps": state["steps"]}
        states = {}
        for i, moments in state["states"].items():
            shapes = {name: value.shape for name, value in moments.items()}
            if i >= len(self._parameters) or shapes != _shapes(self._parameters[i]):
                raise ValueError("the state of the optimiser is that of another model")
            parameter = self._parameters[i]
            states[i] = {
                name: value.to(parameter.device if name == "step" else parameter)
                for name, value in moments.items()
            }
        self._states, self._n_steps = states, state["n_steps"]


def _first(parameter: Tensor) -> dict[str, Tensor]:
    """Moments before the first step."""
    return {
        "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }


def _shapes(parameter: Tensor) -> dict[str, torch.Size]:
    return {"step": torch.Size(()), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
