"""From latent functions to classes."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from skgp.core.likelihoods.bernoulli import Logit, Probit
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.likelihoods.ordinal import Ordinal
from skgp.core.likelihoods.robust_max import RobustMax
from skgp.core.likelihoods.softmax import Softmax
from skgp.core.marginal.sites import start_at_bound
from skgp.core.nodes.rules import NodeRule
from skgp.core.stacks.stack import Stack
from skgp.fitting.model import Layers, Model
from skgp.fitting.setup import Setup
from skgp.recipes.spec import Outputs, StackSpec

_DRAWS: Final = 16  # of the softmax, for each row of a training step
_NODES: Final = 512  # of the softmax, in a prediction
# Variance of the residuals of a least-squares fit to labels. Where they are smaller the classes are
# easily told apart: the function of two classes, whose link has noise of its own, starts larger.
_RESIDUAL: Final = 0.5
OF_TWO: Final = ("probit", "logit")
_LEAST_SHARE: Final = 1e-15  # of a class: one minus it is below one


@dataclass(frozen=True)
class Classes:
    """Parameter group: the likelihood of classes."""

    likelihood: str
    label_noise: float

    def __call__(self, of_several: str, spec: StackSpec, setup: Setup) -> Outputs:
        """Least squares for labels of plus and minus one unit are where the functions start.

        `of_several` is what likelihood="auto" means for three classes or more.
        """
        likelihood = self._make(
            of_several, setup.groups.shape[1], setup.seed_for("classes")
        ).double()
        codes = setup.Y[:, 0].long()
        # A class may be missing from a chunk, of which equal rows may be one.
        least = max(0.5 / max(setup.n_rows, setup.n_data), _LEAST_SHARE)
        if isinstance(likelihood, Ordinal):
            offset, centred = _in_order(likelihood, codes, setup.weight, least)
        else:
            signs = 2.0 * torch.nn.functional.one_hot(codes, likelihood.n_classes).mT.double() - 1.0
            signs = signs[-likelihood.n_latents :]
            share = (1.0 + signs @ setup.weight / setup.weight.sum()) / 2.0
            offset = torch.special.ndtri(share.clamp(least, 1.0 - least))
            centred = signs - (2.0 * share - 1.0).unsqueeze(-1)

        def model(stack: Stack, x: Tensor, nodes: NodeRule, noise_var: Tensor | None) -> Model:
            residual = torch.full_like(offset, _RESIDUAL) if noise_var is None else noise_var
            with torch.no_grad():
                stack.top.mean.copy_(offset)
                if likelihood.n_latents == 1:
                    factor = (_RESIDUAL / residual).clamp_min(1.0)
                    stack.top.kernel.magnify(factor)
                    if isinstance(likelihood, Ordinal) and likelihood.n_classes > 2:
                        # The thresholds, so far of a standard normal, divide f plus noise.
                        variance = centred.square() @ setup.weight / setup.weight.sum()
                        scale = (1.0 + (variance - residual).clamp_min(0.0) * factor).sqrt()
                        likelihood.start(likelihood.thresholds * scale)
                        stack.top.mean.mul_(scale)
            return Model(Layers(stack), likelihood, nodes)

        def settle(model: Model, h: Tensor) -> None:
            weight = setup.weight * (setup.n_data / setup.weight.sum())
            learned = list(likelihood.parameters())
            expected = likelihood.expected_log_class
            start_at_bound(model.stack.top, expected, learned, h, codes, weight)

        has_one = likelihood.n_latents == 1
        return Outputs(likelihood.start_scale * centred, model, settle if has_one else None)

    def n_latents(self, n_classes: int) -> int:
        """Number of latent functions: one for two classes and a link or an order, else one each."""
        has_link = n_classes == 2 and self.likelihood in ("auto", *OF_TWO)
        return 1 if has_link or self.likelihood == "ordinal" else n_classes

    def _make(self, of_several: str, n_classes: int, seed: int) -> ClassLikelihood:
        name = self.likelihood
        if name == "auto":
            name = "probit" if n_classes == 2 else of_several
        if name in OF_TWO:
            if n_classes > 2:
                raise ValueError(
                    f"likelihood={name!r} is for two classes, and y has {n_classes}: use "
                    "'robust-max', 'softmax' or 'auto'"
                )
            return Probit() if name == "probit" else Logit()
        if name == "ordinal":
            return Ordinal(n_classes)
        if name == "softmax":
            return Softmax(n_classes, _DRAWS, _NODES, seed)
        return RobustMax(n_classes, self.label_noise)


def _in_order(
    likelihood: Ordinal, codes: Tensor, weight: Tensor, least: float
) -> tuple[Tensor, Tensor]:
    """Prior mean (1,) and start (1, n) of the function of ordered classes; starts the thresholds.

    They are those that divide a standard normal in proportion to the classes. The function starts
    at ridits (Bross 1958), the shares of lower classes plus half of a row's own, which have mean
    one half; of two classes they are as far apart as the labels of `Probit` if multiplied by four.
    """
    labels = torch.nn.functional.one_hot(codes, likelihood.n_classes).double()
    share = weight @ labels / weight.sum()
    up_to = share.cumsum(0)
    cuts = torch.special.ndtri(up_to[:-1].clamp(least, 1.0 - least))
    likelihood.start(cuts)
    ridits = labels @ (up_to - 0.5 * share)
    return -cuts[:1], 4.0 * (ridits - 0.5).unsqueeze(0)
