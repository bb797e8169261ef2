"""Draws of a fitted model as functions of x, in the user's units."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from sklearn.utils import check_array
from torch import Tensor

from skgp._typing import Array
from skgp.core.layers.noise import NORMAL_NOISE, MixtureNoise
from skgp.core.numerics.draws import make_generator
from skgp.core.stacks.functions import StackFunctions
from skgp.core.stacks.stack import GPStack
from skgp.fitting.arguments import inputs_to_check, reading
from skgp.fitting.model import Layers, Model
from skgp.fitting.tensor_scales import TensorScales

_CHUNK_CELLS = 2**14  # rows times draws of a step


class FunctionDraws:
    """Draws of the noiseless function f: each is one function of x, the same in every call.

    What `sample_functions` of a regressor returns. A draw of a GP is a sum of 1,024 waves of random
    frequencies, which stands for the prior, plus an update that makes it a draw from the posterior
    (pathwise conditioning; Wilson et al. 2020). Each draw has frequencies of its own, so that means
    and covariances over many draws are those of the model. The correlations of a single draw differ
    from those of the kernel, by a standard error of at most 0.032.

    Parameters
    ----------
    model : Model
        Fitted, of GP layers with Gaussian noise; what is needed of it is copied.
    output_shape : tuple
        (P,), or () for a one-dimensional y.
    n_samples : int
        Number S of functions.
    seed : int
    prior : bool
        Whether the layers are drawn from their priors.
    names : sequence of str or None
        Of the columns of X, which a data frame has to have in this order.

    Attributes
    ----------
    n_samples : int
    n_features_in_ : int
        Number of columns of X.

    References
    ----------
    J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth, Efficiently
    Sampling Functions from Gaussian Process Posteriors, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import SVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (100, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(100)
    >>> f = SVGPRegressor(n_inducing=10, random_state=0).fit(X, y).sample_functions(3)
    >>> f
    FunctionDraws(n_samples=3, n_features_in_=1)
    >>> f([[0.5], [0.51]]).shape
    (2, 3)
    >>> bool((f([[0.5]]) == f([[0.5]])).all())
    True
    """

    def __init__(
        self,
        model: Model,
        output_shape: tuple[int, ...],
        n_samples: int,
        seed: int,
        *,
        prior: bool = False,
        names: Sequence[str] | None = None,
    ) -> None:
        drawn = drawn_functions(model, n_samples, seed, prior=prior)
        self._parts = [part.functions for part in drawn]
        assert model.normal_noise is not None
        mixing = model.normal_noise.mixing
        self._mixing = None if mixing is None else mixing.detach().clone()
        self._units = TensorScales(model.x_scale, model.y_scale, model.log_weights.detach())
        self._names = None if names is None else list(names)
        self._is_flat = not output_shape
        self.n_samples = n_samples
        self.n_features_in_ = self._units.n_inputs

    def __call__(self, X: Any) -> Array:
        """Values of all draws.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n, S) or (n, P, S)
            In the units of y.

        Raises
        ------
        ValueError
            If X has other columns than the rows of the fit, or numbers that are not finite.
        """
        columns = getattr(X, "columns", None)
        if not (columns is None or self._names is None or list(columns) == self._names):
            raise ValueError(
                "feature names should match those that were passed during fit, in their order: got "
                f"{list(columns)[:5]}, and the fit saw {self._names[:5]}"
            )
        X = inputs_to_check(X, "X")
        with reading("X", X):
            X = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        size = max(1, _CHUNK_CELLS // self.n_samples)
        with torch.no_grad():
            rows = torch.tensor(np.ascontiguousarray(X))
            parts = [self.evaluate(part) for part in rows.split(size)]
        values: Array = torch.cat(parts).cpu().numpy()
        return values

    def evaluate(self, x: Tensor) -> Tensor:
        """Values of all draws at a tensor, with gradients in it.

        Parameters
        ----------
        x : Tensor of shape (..., n, D)
            In the units of X.

        Returns
        -------
        Tensor of shape (..., n, S) or (..., n, P, S)
            In the units of y, float64.

        Raises
        ------
        ValueError
            If x has another number of columns than the rows of the fit.
        """
        scaled = self._units.scaled(x).flatten(0, -2)
        f = torch.cat([part(scaled) for part in self._parts])
        y = self._units.outputs(f if self._mixing is None else f @ self._mixing.mT)
        values = y[..., 0].mT if self._is_flat else y.permute(1, 2, 0)
        return values.unflatten(0, x.shape[:-1])

    def __repr__(self) -> str:
        return f"FunctionDraws(n_samples={self.n_samples}, n_features_in_={self.n_features_in_})"


class DrawnFunctions(NamedTuple):
    """Draws of functions from one posterior.

    Attributes
    ----------
    functions : StackFunctions
    noise : MixtureNoise
        Of that posterior, relative to that of the likelihood.
    """

    functions: StackFunctions
    noise: MixtureNoise = NORMAL_NOISE


@torch.no_grad()
def drawn_functions(
    model: Model, n_samples: int, seed: int, *, prior: bool = False
) -> list[DrawnFunctions]:
    """Draws of the latent functions, of scaled inputs: together so many.

    Parameters
    ----------
    model : Model
        Fitted, of GP layers.
    n_samples : int
    seed : int
    prior : bool
        Whether the layers are drawn from their priors.
    """
    source = model.source
    assert isinstance(source, Layers)
    generator = make_generator(seed, "functions")
    if prior:
        stack = cast(GPStack, source.stack)
        return [DrawnFunctions(StackFunctions(stack, None, model.nodes, n_samples, generator))]
    posteriors = source.posteriors(model.nodes)
    if len(posteriors) == 1:
        sizes = [(posteriors[0], n_samples)]
    else:  # each draw is one of a posterior drawn at random
        weights = torch.tensor([known.weight for known in posteriors])
        drawn = torch.multinomial(weights, n_samples, replacement=True, generator=generator)
        sizes = [(posteriors[i], 1) for i in drawn]
    return [
        DrawnFunctions(
            StackFunctions(cast(GPStack, known.stack), known.factors, known.nodes, n, generator),
            known.noise,
        )
        for known, n in sizes
    ]
