"""L-BFGS without the import of a compiler."""

from typing import Any

import torch


class LBFGS(torch.optim.LBFGS):
    """torch.optim.LBFGS, whose add_param_group imports a compiler: that takes a second."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.param_groups.append({**self.defaults, **param_group})
