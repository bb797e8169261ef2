"""L-BFGS as torch has it."""

from typing import Any

import torch


class LBFGS(torch.optim.LBFGS):
    """That of torch, whose own method imports a compiler, which takes longer than a short fit."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.param_groups.append({**self.defaults, **param_group})
