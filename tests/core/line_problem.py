"""A least-squares line: a problem on which every training step can be followed."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from skgp.core.data import Batch, Targets
from skgp.core.training.history import History
from skgp.core.training.optimizers import Adam
from skgp.core.training.plan import Candidate, Plan
from skgp.core.training.ranks import ALONE
from skgp.core.training.restarts import train
from skgp.core.training.schedules import one_cycle


class Rows:
    """Rows whose single input is their own number, with targets 2 x + 1."""

    def __init__(self, n: int, weight: float = 1.0, n_outputs: int = 1) -> None:
        self.weight = weight
        self.n_outputs = n_outputs
        self.x = torch.arange(n, dtype=torch.float64).unsqueeze(-1)
        self.served: list[list[int]] = []
        self.ranks = ALONE

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_rows(self) -> int:
        return len(self.x)

    @property
    def n_data(self) -> float:
        return self.weight * len(self.x)

    def ordered(self) -> Tensor:
        return torch.arange(len(self.x))

    def shuffled(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self.x), generator=generator)

    def batch(self, rows: Tensor) -> Batch:
        self.served.append(rows.tolist())
        x = self.x[rows]
        return Batch(x, Targets(2.0 * x + 1.0, None), None)


class Line(nn.Module):
    """y = a x + b."""

    def __init__(self, a: float = 0.0, b: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([a, b], dtype=torch.float64))


def squared_error(module: Line) -> Callable[[Batch, int], Tensor]:
    def loss(batch: Batch, step: int) -> Tensor:
        prediction = module.w[0] * batch.x + module.w[1]
        return (prediction - batch.targets.y).square().mean()

    return loss


def plan(**changes: float | None) -> Plan:
    settings = {
        "max_iter": 5,
        "batch_size": 4,
        "schedule": one_cycle,
        "n_trial_epochs": 2,
        "n_iter_no_change": None,
        "tol": 1e-4,
    }
    return Plan(**{**settings, **changes})  # type: ignore[arg-type]  # mixed types


def flat(batches: Sequence[Sequence[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def never(module: nn.Module, history: History) -> bool:
    return False


def fit(
    candidates: Sequence[Candidate] | Candidate,
    data: Rows,
    *,
    seed: int = 0,
    validate: Callable[[nn.Module], float] | None = None,
    on_epoch: Callable[[nn.Module, History], bool] = never,
    **changes: float | None,
) -> tuple[nn.Module, History]:
    if isinstance(candidates, Candidate):
        candidates = [candidates]
    return train(
        candidates, data, plan(**changes), generator(seed), validate=validate, on_epoch=on_epoch
    )


def problem(
    module: Line, loss: Callable[[Batch, int], Tensor], learning_rate: float = 0.1
) -> Candidate:
    optimizer = Adam([module.w], learning_rate)
    return Candidate(module, loss, optimizer)


def line(a: float = 0.0, b: float = 0.0, learning_rate: float = 0.1) -> Candidate:
    module = Line(a, b)
    return problem(module, squared_error(module), learning_rate)


class Sick:
    """A loss that calls `fail` at the calls named, and records parameters at every call."""

    def __init__(self, module: Line, at: set[int], fail: Callable[[Tensor], Tensor]) -> None:
        self.module = module
        self.at = at
        self.fail = fail
        self.seen: list[list[float]] = []

    def __call__(self, batch: Batch, step: int) -> Tensor:
        self.seen.append(self.module.w.tolist())
        value = squared_error(self.module)(batch, step)
        return self.fail(value) if len(self.seen) in self.at else value
