"""One-layer sparse GP regressors: SVGP and PPGPR."""

import math
from numbers import Integral
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.inducing import kmeans_inducing_points
from skgp.core.initialisation import start_hyperparameters, start_posterior
from skgp.core.kernels import PROFILES, GPyTorchBase, Kernel, KernelLike, make_kernel
from skgp.core.layers import DecoupledGP, Layer, SparseGP
from skgp.core.likelihoods import Gaussian
from skgp.core.objectives import ELBO, PREDICTIVE, Objective
from skgp.core.stack import GPStack
from skgp.core.variational import DeltaPosterior, DiagonalPosterior, make_posterior
from skgp.estimators._base import GPRegressor
from skgp.estimators._model import Model, Setup

_INITIAL_NOISE = math.exp(-2.0)
_INITIAL_VAR = 0.1


class _SparseRegressor(GPRegressor):
    """What SVGP and PPGPR share: the model of one layer, built from k-means inducing inputs."""

    n_inducing: int
    n_latents: int | None
    covariance: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GPRegressor._parameter_constraints,
        "kernel": [StrOptions(set(PROFILES)), GPyTorchBase],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "n_latents": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _build(self, setup: Setup) -> Model:
        n_outputs, n_features = setup.Y.shape[1], setup.x.shape[1]
        n_latents = n_outputs if self.n_latents is None else self.n_latents
        if n_latents > n_outputs:
            raise ValueError(
                f"n_latents={n_latents} exceeds the number of outputs, {n_outputs}: lower it"
            )
        observed = ~setup.Y.isnan()
        filled = setup.Y.nan_to_num()  # scaled targets: zero is the mean
        mixing, latent = None, filled.mT
        if n_outputs > 1:
            mixing = _principal_mixing(filled, n_latents)
            latent = (filled @ torch.linalg.pinv(mixing)).mT
        kernel = make_kernel(self.kernel, len(latent), n_features, math.sqrt(n_features))
        layer = self._layer(kernel, len(latent), setup).double()
        likelihood = Gaussian(n_outputs, _INITIAL_NOISE, self.noise_floor, mixing).double()

        rows = setup.x, latent, setup.weight * observed.any(-1)
        noise_var = start_hyperparameters(layer, *rows, _INITIAL_NOISE)
        n_observed = setup.n_data * float(rows[2].sum() / setup.weight.sum())
        start_posterior(layer, *rows, noise_var, n_observed)
        likelihood.start(noise_var if mixing is None else noise_var @ mixing.square())
        return Model(GPStack([layer]), likelihood)

    def _layer(self, kernel: Kernel, n_gps: int, setup: Setup) -> Layer:
        Z = _inducing(setup, self.n_inducing, n_gps)
        mu = torch.zeros(Z.shape[:2])
        return SparseGP(kernel, Z, make_posterior(self.covariance, mu, _INITIAL_VAR), self.jitter)


def _inducing(setup: Setup, n_inducing: int, n_gps: int) -> Tensor:
    """Initial inducing inputs (W, M, D), the same for each GP."""
    Z = kmeans_inducing_points(setup.x.numpy(), n_inducing, setup.seed)
    return torch.from_numpy(Z).expand(n_gps, -1, -1).clone()


def _principal_mixing(Y: Tensor, n_latents: int) -> Tensor:
    """Initial mixing matrix (W, P): the leading principal directions, scaled by their deviations.

    Latent functions of unit variance then reproduce the outputs' covariance.
    """
    eigenvalues, directions = torch.linalg.eigh(Y.mT @ Y / len(Y))
    deviations = eigenvalues[-n_latents:].clamp_min(1e-6).sqrt()
    return (directions[:, -n_latents:] * deviations).mT.flip(0)


class SVGPRegressor(_SparseRegressor):
    """Sparse variational GP regression.

    Maximises the evidence lower bound by minibatches (Hensman et al. 2013; parametric GP paper,
    Eqn 6): sum_i [log N(y_i | f_mean, noise) - f_var / (2 noise)] - beta_reg KL(q(u) || p(u)). The
    predictive distribution of a row is one normal, N(f_mean, f_var + noise) (Eqn 11).

    Parameters
    ----------
    kernel : {"rbf", "matern12", "matern32", "matern52"} or gpytorch kernel, default="matern52"
        A name gives one lengthscale per input (ARD). A gpytorch kernel is copied, with its priors,
        for each latent function; it sees standardised inputs if `normalize_X`.
    n_inducing : int, default=300
        Number M of inducing inputs, started by k-means; cost grows with M^2 per row.
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u).
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). One gives the evidence lower bound.
    n_latents : int, optional
        Number W of latent functions of a two-dimensional y, which the linear model of
        coregionalisation mixes into P outputs; P if None.
    max_iter : int or "auto", default="auto"
        Epochs. "auto": 100, but no more than make 10,000 steps (and at least 3), and enough for 500
        steps.
    batch_size : int, default=1000
        Rows per step. A table of no more rows is trained as a whole, without random order.
    learning_rate_init : float, default=0.03
        Peak of the one-cycle schedule of Adam.
    early_stopping : bool, default=False
        Stop when the validation score no longer improves, and keep the best parameters. The rows
        are those of `X_val`, else a share `validation_fraction` of the training rows.
    validation_fraction : float, default=0.1
        Share of the rows held out if `early_stopping` and no `X_val` is given.
    n_iter_no_change : int, default=10
        Epochs without improvement after which training stops.
    tol : float, default=1e-4
        Improvement that counts, in nats per row.
    n_restarts : int, default=1
        Starts from different inducing inputs; the one with the lowest training loss after a
        twentieth of the epochs is trained to the end.
    normalize_X, normalize_y : bool, default=True
        Standardise inputs and targets inside the estimator. Results come back in the units of y.
    noise_floor : float, default=1e-4
        Lower bound of the noise variance, in units of the variance of y if `normalize_y`. Discrete
        or leaking targets let a density grow without bound; the floor keeps it finite.
    jitter : float, default=1e-4
        Diagonal regularisation of the kernel matrix of the inducing inputs, relative to the kernel
        variance.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit's parameters and scales.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Arithmetic of training; "auto" is float64 for a table of one batch and float32 for a larger
        one. Factors of kernel matrices and predictions are always in float64.
    device : str, default="cpu"
        Torch device of training and prediction.
    verbose : int, default=0
        If positive, write a line per epoch.
    random_state : int, RandomState or None
        Seed of the inducing inputs and of the order of rows.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, array of str
        As in scikit-learn.
    n_outputs_ : int
        Number P of outputs.
    n_iter_ : int
        Epochs trained.
    loss_curve_ : list of float
        Mean training loss of each epoch, nats per row.
    validation_scores_ : list of float or None
        Mean log density of the validation rows after each epoch, nats per row, in units of y.
    best_validation_score_ : float or None
    noise_variance_ : float or array (P,)
        Variance of the observation noise, squared units of y.
    lengthscales_ : array (D,) or (W, D)
        In the units of X.
    inducing_points_ : array (M, D) or (W, M, D)
        In the units of X.
    stack_ : torch.nn.Module
        The layers.
    model_ : torch.nn.Module
        Stack, likelihood and scales.

    Raises
    ------
    ValueError
        In `fit`, if a parameter or an argument is out of its range; the message names it.
    NonFiniteLossError
        In `fit`, if training diverges and does not recover.

    See Also
    --------
    PPGPRRegressor : Calibrated where the noise varies with the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import SVGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = SVGPRegressor(n_inducing=20, max_iter=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> print(f"{mean[0]:.1f} +- {std[0]:.1f}")
    0.5 +- 0.1
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SparseRegressor._parameter_constraints,
        "covariance": [StrOptions({"full", "diagonal"})],
    }

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        n_latents: int | None = None,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-4,
        warm_start: bool = False,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.covariance = covariance
        self.beta_reg = beta_reg
        self.n_latents = n_latents
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.n_restarts = n_restarts
        self.normalize_X = normalize_X
        self.normalize_y = normalize_y
        self.noise_floor = noise_floor
        self.jitter = jitter
        self.warm_start = warm_start
        self.dtype = dtype
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _objective(self) -> Objective:
        return ELBO


class PPGPRRegressor(_SparseRegressor):
    """Parametric predictive GP regression.

    Maximises the log density of the predictive distribution itself (parametric GP paper, Eqn 16):
    sum_i log N(y_i | f_mean, f_var + noise) - beta_reg KL(q(u) || p(u)). The latent variance then
    models noise that varies with the inputs, and predictions are calibrated.

    Parameters
    ----------
    kernel : {"rbf", "matern12", "matern32", "matern52"} or gpytorch kernel, default="matern52"
        A name gives one lengthscale per input (ARD). A gpytorch kernel is copied, with its priors,
        for each latent function; it sees standardised inputs if `normalize_X`.
    n_inducing : int, default=300
        Number M of inducing inputs, started by k-means; cost grows with M^2 per row. With
        covariance="decoupled" those of the variance.
    n_inducing_mean : int, default=1000
        Number of inducing inputs of the mean if covariance="decoupled": they cost M per row.
    covariance : {"decoupled", "full", "diagonal", "delta"}, default="decoupled"
        Covariance of q(u). "decoupled" (PPGPR-MFD) is diagonal and gives mean and variance
        inducing inputs of their own; "delta" is a point with the regulariser -log p(u).
    beta_reg : float, default=0.2
        Weight of the divergence KL(q(u) || p(u)). Small tables want more,
        about 1; see the user guide.
    n_latents : int, optional
        Number W of latent functions of a two-dimensional y, which the linear model of
        coregionalisation mixes into P outputs; P if None.
    max_iter : int or "auto", default="auto"
        Epochs. "auto": 100, but no more than make 10,000 steps (and at least 3), and enough for 500
        steps.
    batch_size : int, default=1000
        Rows per step. A table of no more rows is trained as a whole, without random order.
    learning_rate_init : float, default=0.02
        Peak of the one-cycle schedule of Adam.
    early_stopping : bool, default=False
        Stop when the validation score no longer improves, and keep the best parameters. The rows
        are those of `X_val`, else a share `validation_fraction` of the training rows.
    validation_fraction : float, default=0.1
        Share of the rows held out if `early_stopping` and no `X_val` is given.
    n_iter_no_change : int, default=10
        Epochs without improvement after which training stops.
    tol : float, default=1e-4
        Improvement that counts, in nats per row.
    n_restarts : int, default=1
        Starts from different inducing inputs; the one with the lowest training loss after a
        twentieth of the epochs is trained to the end.
    normalize_X, normalize_y : bool, default=True
        Standardise inputs and targets inside the estimator. Results come back in the units of y.
    noise_floor : float, default=1e-4
        Lower bound of the noise variance, in units of the variance of y if `normalize_y`. Discrete
        or leaking targets let a density grow without bound; the floor keeps it finite.
    jitter : float, default=1e-4
        Diagonal regularisation of the kernel matrix of the inducing inputs, relative to the kernel
        variance.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit's parameters and scales.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Arithmetic of training; "auto" is float64 for a table of one batch and float32 for a larger
        one. Factors of kernel matrices and predictions are always in float64.
    device : str, default="cpu"
        Torch device of training and prediction.
    verbose : int, default=0
        If positive, write a line per epoch.
    random_state : int, RandomState or None
        Seed of the inducing inputs and of the order of rows.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, array of str
        As in scikit-learn.
    n_outputs_ : int
        Number P of outputs.
    n_iter_ : int
        Epochs trained.
    loss_curve_ : list of float
        Mean training loss of each epoch, nats per row.
    validation_scores_ : list of float or None
        Mean log density of the validation rows after each epoch, nats per row, in units of y.
    best_validation_score_ : float or None
    noise_variance_ : float or array (P,)
        Variance of the observation noise, squared units of y.
    lengthscales_ : array (D,) or (W, D)
        In the units of X.
    inducing_points_ : array (M, D) or (W, M, D)
        In the units of X.
    stack_ : torch.nn.Module
        The layers.
    model_ : torch.nn.Module
        Stack, likelihood and scales.

    Raises
    ------
    ValueError
        In `fit`, if a parameter or an argument is out of its range; the message names it.
    NonFiniteLossError
        In `fit`, if training diverges and does not recover.

    See Also
    --------
    SVGPRegressor : The usual objective; better on a few hundred rows.

    Examples
    --------
    Noise that grows with x:

    >>> import numpy as np
    >>> from skgp import PPGPRRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 3, (500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 0] * rng.standard_normal(500)
    >>> model = PPGPRRegressor(n_inducing=20, n_inducing_mean=20, max_iter=200, random_state=0)
    >>> dist = model.fit(X, y).predict_dist([[0.5], [2.5]])
    >>> print(dist.std().round(1))
    [0.1 0.3]
    """

    n_inducing_mean: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SparseRegressor._parameter_constraints,
        "covariance": [StrOptions({"decoupled", "full", "diagonal", "delta"})],
        "n_inducing_mean": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
        n_inducing_mean: int = 1000,
        covariance: Literal["decoupled", "full", "diagonal", "delta"] = "decoupled",
        beta_reg: float = 0.2,
        n_latents: int | None = None,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.02,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-4,
        warm_start: bool = False,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.n_inducing_mean = n_inducing_mean
        self.covariance = covariance
        self.beta_reg = beta_reg
        self.n_latents = n_latents
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.n_restarts = n_restarts
        self.normalize_X = normalize_X
        self.normalize_y = normalize_y
        self.noise_floor = noise_floor
        self.jitter = jitter
        self.warm_start = warm_start
        self.dtype = dtype
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _objective(self) -> Objective:
        return PREDICTIVE

    def _layer(self, kernel: Kernel, n_gps: int, setup: Setup) -> Layer:
        if self.covariance != "decoupled":
            return super()._layer(kernel, n_gps, setup)
        Z_mean = _inducing(setup, self.n_inducing_mean, n_gps)
        Z = _inducing(setup, self.n_inducing, n_gps)
        mean_posterior = DeltaPosterior(torch.zeros(Z_mean.shape[:2]))
        posterior = DiagonalPosterior(torch.zeros(Z.shape[:2]), _INITIAL_VAR)
        return DecoupledGP(kernel, Z_mean, Z, mean_posterior, posterior, self.jitter)
