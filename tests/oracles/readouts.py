"""Models of the neural likelihoods paper, row by row: draws of their outputs, and their moments."""

import itertools
import math
from typing import Any

import numpy as np
from oracles import activations
from oracles.models import to_array
from torch import nn

from skgp.core.stacks.mixing import GPMixing, NetworkMixing, NormalMixing
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.units import NeuralUnits, NoisyUnits


def network(module: nn.Module, x: Any) -> Any:
    """Outputs of a tanh network for one row, unit by unit."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    h = x
    for number, layer in enumerate(layers):
        weight, bias = to_array(layer.weight), to_array(layer.bias)
        h = np.array([weight[j] @ h + bias[j] for j in range(len(bias))])
        h = h if number == len(layers) - 1 else np.tanh(h)
    return h


def mixing_moments(readout: Readout, x: Any, f: Any, v: Any) -> tuple[Any, Any]:
    """Means and variances (P, H) of the entries of M for one row x (D,) of moments f, v (W,)."""
    mixing, n_own = readout.mixing, readout.units.n_latents
    if isinstance(mixing, NormalMixing):
        mean, scale = (to_array(part) for part in mixing.posterior.moments())
        return mean, scale**2
    if isinstance(mixing, NetworkMixing):
        if mixing.training and mixing.dropout:
            return dropped_moments(mixing, x)
        mean = network(mixing.network, x).reshape(mixing.shape)
        return mean, np.zeros_like(mean)
    assert isinstance(mixing, GPMixing)
    return f[n_own:].reshape(mixing.shape), v[n_own:].reshape(mixing.shape)


def dropped_moments(mixing: NetworkMixing, x: Any) -> tuple[Any, Any]:
    """The same if weights of the last layer are dropped: over all masks of an entry's weights."""
    *_, last = mixing.network
    h, p = np.tanh(network(mixing.network[:-2], x)), mixing.dropout
    weight, bias = to_array(last.weight), to_array(last.bias)
    mean, square = np.zeros(len(bias)), np.zeros(len(bias))
    for kept in itertools.product([0.0, 1.0], repeat=len(h)):
        probability = math.prod(1.0 - p if z else p for z in kept)
        entries = bias + weight @ (np.array(kept) * h) / (1.0 - p)
        mean, square = mean + probability * entries, square + probability * entries**2
    return mean.reshape(mixing.shape), (square - mean**2).reshape(mixing.shape)


def latent_moments(readout: Readout, f: Any, v: Any) -> tuple[Any, Any]:
    """Means and variances (L,) of the functions below the units, among all that go in."""
    units = readout.units
    noise = [0.0] * units.n_latents
    if isinstance(units, NoisyUnits):
        noise = [math.exp(log_noise) for log_noise in units.log_noise.tolist()]
    own = range(units.n_latents)
    return np.array([f[i] for i in own]), np.array([v[i] + noise[i] for i in own])


def unit_draws(readout: Readout, name: str, f: Any, xi: Any) -> Any:
    """Units (N, H) for latent draws f (N, L) and standard normals xi (N, H) of the biases."""
    if not isinstance(readout.units, NeuralUnits):
        return f
    W, (bias, scale) = to_array(readout.units.weight), readout.units.bias.moments()
    a = f @ W.T + to_array(bias)[0] + to_array(scale)[0] * xi
    return activations.FUNCTIONS[name](a)


def output_draws(
    readout: Readout, name: str, x: Any, f: Any, v: Any, n: int, rng: np.random.Generator
) -> Any:
    """Draws (n, P) of Phi at one row, with every part of the model drawn."""
    mean, var = mixing_moments(readout, x, f, v)
    m, s2 = latent_moments(readout, f, v)
    latents = m + np.sqrt(s2) * rng.standard_normal((n, len(m)))
    h = unit_draws(readout, name, latents, rng.standard_normal((n, mean.shape[1])))
    outputs = [
        sum(
            (mean[k, i] + np.sqrt(var[k, i]) * rng.standard_normal(n)) * h[:, i]
            for i in range(mean.shape[1])
        )
        for k in range(mean.shape[0])
    ]
    return np.stack(outputs, -1)


def output_moments(readout: Readout, name: str, x: Any, f: Any, v: Any) -> tuple[Any, Any]:
    """Mean and variance (P,) of Phi at one row by Eqns 12 and 13, with quadrature for the units."""
    M, var = mixing_moments(readout, x, f, v)
    n_outputs, n_units = M.shape
    m_h, v_h = latent_moments(readout, f, v)
    v_h = np.diag(v_h)
    if isinstance(readout.units, NeuralUnits):
        g, W = activations.FUNCTIONS[name], to_array(readout.units.weight)
        bias, scale = (to_array(part)[0] for part in readout.units.bias.moments())
        a = W @ m_h + bias
        C = W @ v_h @ W.T + np.diag(scale**2)
        m_h = np.array([float(activations.mean(g, a[i], C[i, i])) for i in range(n_units)])
        v_h = np.empty((n_units, n_units))
        for i in range(n_units):
            for j in range(n_units):
                v_h[i, j] = (
                    activations.covariance(g, a[i], C[i, i], a[j], C[j, j], C[i, j])
                    if i != j
                    else activations.mean(lambda z, m=m_h[i]: (g(z) - m) ** 2, a[i], C[i, i])
                )
    m_k, v_k = np.zeros(n_outputs), np.zeros(n_outputs)
    for k in range(n_outputs):
        for i in range(n_units):
            m_k[k] += M[k, i] * m_h[i]
            v_k[k] += var[k, i] * (m_h[i] ** 2 + v_h[i, i])
            for j in range(n_units):
                v_k[k] += M[k, i] * v_h[i, j] * M[k, j]
    return m_k, v_k
