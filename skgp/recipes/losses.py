"""What is minimised for a stack: objectives with the penalty on networks."""

from dataclasses import dataclass
from typing import Final, Literal, Self

from torch import Tensor

from skgp.core.data import Batch
from skgp.core.networks.chance import is_known
from skgp.core.networks.features import check_batch, half_squared_norm
from skgp.core.objectives.objective import Objective, loss
from skgp.fitting.model import Model


@dataclass(frozen=True)
class DivergenceWeight:
    """Weight of the divergences of q(u) from the prior.

    Attributes
    ----------
    beta_reg : float
    full_rows : float or None
        Rows up to which the weight is one. For more it falls in proportion to `beta_reg`, or is
        `beta_reg` at once if that is more than one.
    full_rows_of_noise : float
        The same for targets that are noise alone. For others it is multiplied by the share of the
        noise in their variance. The larger of this number and `full_rows` counts.
    """

    beta_reg: float
    full_rows: float | None = None
    full_rows_of_noise: float = 0.0

    @classmethod
    def of(
        cls,
        beta_reg: float | Literal["auto"],
        full_rows: float,
        full_rows_of_noise: float = 0.0,
        *,
        least: float,
    ) -> Self:
        """The weight that a parameter says; "auto" depends on the rows."""
        if beta_reg != "auto":
            return cls(float(beta_reg))
        return cls(least, full_rows, full_rows_of_noise)

    def __call__(self, model: Model, n_data: float) -> float:
        """The weight for a model, trained on rows whose weights have the sum `n_data`."""
        if self.full_rows is None:
            return float(self.beta_reg)
        full_rows = max(self.full_rows, self.full_rows_of_noise * model.noise_share)
        return 1.0 if n_data <= full_rows else max(self.beta_reg, full_rows / n_data)


FULL_ROWS: Final = 1000.0  # up to which predictive objectives have whole divergences by default
FULL: Final = DivergenceWeight(1.0)


def stack_loss(
    objective: Objective,
    beta_reg: DivergenceWeight,
    weight_decay: float,
    model: Model,
    batch: Batch,
    step: int,
    n_data: float,
) -> Tensor:
    """Training loss of a batch, nats per row, with the penalty on the weights of networks."""
    stack = model.stack
    check_batch(stack.features, len(batch.x))
    weight = beta_reg(model, n_data) * stack.divergence_share(step)
    parts = objective, stack, model.likelihood.at(step), model.nodes(len(batch.x), step), batch
    value = loss(*parts, beta_reg=weight, n_data=n_data)
    return value + weight_decay * sum(map(half_squared_norm, stack.networks))


def stack_repeats(model: Model) -> bool:
    """Whether the loss of a stack is one function of the batch and of draws, in all steps."""
    has_known = all(map(is_known, model.modules()))
    is_alike = model.stack.divergence_share(0) == 1.0 and not model.likelihood.looks_at_numbers
    return has_known and is_alike
