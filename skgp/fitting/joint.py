"""The covariance of predictions over rows."""

from typing import cast

import torch
from torch import Tensor

from skgp.core.numerics.draws import make_generator
from skgp.core.stacks.functions import HiddenFunctions, hidden_mixture
from skgp.core.stacks.stack import GPStack
from skgp.fitting.model import Layers, Model, rows_per_chunk
from skgp.fitting.table import Array, scale_inputs


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
    source, noise = model.source, model.normal_noise
    assert isinstance(source, Layers)
    assert noise is not None
    stack = cast(GPStack, source.stack)
    like = model.log_weights
    x = torch.from_numpy(scale_inputs(X, model.x_scale)).to(like)
    generator = make_generator(0, "joint covariance")
    top = stack.top
    posteriors = source.posteriors()
    total = x.new_zeros(len(noise.noise_var), len(x), len(x))
    means, shares = [], []
    for factors in posteriors:
        hidden, weights = hidden_mixture(stack, factors, model.nodes, generator)
        share = weights / len(posteriors)
        for weight, of_kernel, of_mean in zip(share, *_carried(hidden, x, like), strict=True):
            moments = top.moments(of_kernel[None], factors[-1], of_mean[None])
            cov = top.covariance(of_kernel, factors[-1])
            cov.diagonal(dim1=-2, dim2=-1).copy_(moments.f_var[0].mT)  # never negative
            total += weight * noise.joint_covariance(cov)
            means.append(noise.outputs(moments.f_mean[0]))
        shares.append(share)
    weights, mean = torch.cat(shares)[:, None, None], torch.stack(means)  # (Q, 1, 1), (Q, n, P)
    spread = (weights.sqrt() * (mean - (weights * mean).sum(0))).permute(2, 1, 0)
    total += spread @ spread.mT
    total.diagonal(dim1=-2, dim2=-1).add_(noise.noise_var[:, None])
    of_outputs: Array = total.movedim(0, -1).cpu().numpy() * model.y_scale.unit**2
    return of_outputs if output_shape else of_outputs[..., 0]


def _carried(hidden: HiddenFunctions, x: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """What kernel and mean of the top layer see at each node, chunk by chunk of rows."""
    parts = [hidden(part) for part in x.split(rows_per_chunk(like))]
    of_kernel, of_mean = (torch.cat(chunks, 1) for chunks in zip(*parts, strict=True))
    n_nodes = max(len(of_kernel), len(of_mean))
    return of_kernel.expand(n_nodes, -1, -1), of_mean.expand(n_nodes, -1, -1)
