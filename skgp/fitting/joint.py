"""The joint law of f over rows, and the covariance of predictions over rows."""

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor

from skgp._typing import Array
from skgp.core.layers.noise import MixtureNoise
from skgp.core.numerics.draws import make_generator
from skgp.core.stacks.functions import HiddenFunctions, hidden_mixture
from skgp.core.stacks.stack import GPStack
from skgp.fitting.model import Layers, Model, rows_per_chunk


class JointLaw(NamedTuple):
    """Given each of Q hidden functions, the latent functions f are normal over any rows.

    Attributes
    ----------
    hidden : HiddenFunctions
    weights : Tensor of shape (Q,)
        Of the hidden functions.
    stack : GPStack
    factors
        Of its top layer.
    noise : MixtureNoise
        Relative to that of the likelihood.
    """

    hidden: HiddenFunctions
    weights: Tensor
    stack: GPStack
    factors: object
    noise: MixtureNoise

    def components(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Weight, mean (G, N, W) and covariance (W, G, N, N) of f at scaled inputs x (G, N, D)."""
        top, rows = self.stack.top, x.flatten(0, 1)
        parts = [self.hidden(part) for part in rows.split(rows_per_chunk(self.weights))]
        of_kernel, of_mean = (
            torch.cat(chunks, 1).expand(len(self.weights), -1, -1)
            for chunks in zip(*parts, strict=True)
        )
        for weight, *at_node in zip(self.weights, of_kernel, of_mean, strict=True):
            h, h_mean = (part.unflatten(0, x.shape[:2]) for part in at_node)
            moments = top.moments(h, self.factors, h_mean)
            cov = top.covariance(h, self.factors)
            cov.diagonal(dim1=-2, dim2=-1).copy_(moments.f_var.movedim(-1, 0))  # never negative
            yield weight, moments.f_mean, cov


@torch.no_grad()
def joint_laws(model: Model) -> Iterator[JointLaw]:
    """The law of f over rows: of each of its posteriors, whose weights sum to one together.

    Parameters
    ----------
    model : Model
        Fitted, of GP layers.
    """
    source = model.source
    assert isinstance(source, Layers)
    generator = make_generator(0, "joint covariance")
    for known in source.posteriors(model.nodes):
        stack = cast(GPStack, known.stack)
        hidden, weights = hidden_mixture(stack, known.factors, known.nodes, generator)
        weights = known.weight * weights
        yield JointLaw(hidden, weights, stack, known.factors[-1], known.noise)


@torch.no_grad()
def joint_covariance(model: Model, X: Array, output_shape: tuple[int, ...]) -> Array:
    """Covariance of y over rows, noise included, in squared units of y.

    Given the hidden functions it is that of the top layer, in closed form. Over the hidden
    functions of a prediction the law of total covariance holds: the mean of the covariances plus
    the covariance of the means.

    Parameters
    ----------
    model : Model
        Fitted, of GP layers with Gaussian noise.
    X : array of shape (n, D)
        In the user's units.
    output_shape : tuple
        (P,), or () for a one-dimensional y.

    Returns
    -------
    array of shape (n, n) or (n, n, P)
    """
    noise = model.normal_noise
    assert noise is not None
    x = model.scaled(X)
    total = x.new_zeros(len(noise.noise_var), len(x), len(x))
    means, shares = [], []
    for law in joint_laws(model):
        for weight, f_mean, cov in law.components(x[None]):
            total += weight * noise.joint_covariance(cov.squeeze(1))
            means.append(noise.outputs(f_mean[0]))
        shares.append(law.weights)
    weights, mean = torch.cat(shares)[:, None, None], torch.stack(means)  # (Q, 1, 1), (Q, n, P)
    spread = (weights.sqrt() * (mean - (weights * mean).sum(0))).permute(2, 1, 0)
    total += spread @ spread.mT
    # Laws may have a noise each, of which that of the likelihood is the mean.
    total.diagonal(dim1=-2, dim2=-1).add_(noise.noise_var[:, None])
    if model.copies is not None:  # of one output
        of_y = (weights * mean).sum(0)[:, 0]
        total = model.copies.of_rows(x).covariance(of_y, total[0]).unsqueeze(0)
    of_outputs: Array = total.movedim(0, -1).cpu().numpy() * model.y_scale.unit**2
    return of_outputs if output_shape else of_outputs[..., 0]
