"""What the docstrings of the estimators share, written once and put in where a class is defined."""

from string import Template
from textwrap import dedent, indent
from typing import Final, TypeVar

ClassT = TypeVar("ClassT", bound=type)

# A line `$name` of a class docstring, or of a text, is replaced by the text of that name.
SHARED: Final[dict[str, str]] = {
    "kernel": """\
        kernel : {"rbf", "matern12", "matern32", "matern52"} or gpytorch kernel, default="matern52"
            A name gives one lengthscale per input (ARD). A gpytorch kernel is copied, with its
            priors, for each latent function; it sees standardised inputs if `normalize_X`.
        """,
    "layer_kernels": """\
        kernel : {"rbf", "matern12", "matern32", "matern52"}, gpytorch kernel, or list of them, \
default="matern52"
            One for all layers of GPs, or a list of one for each, from the inputs upwards. A name
            gives one lengthscale per input (ARD). A gpytorch kernel is copied, with its priors, for
            each function; it sees standardised inputs if `normalize_X`.
        """,
    "n_latents": """\
        n_latents : int, optional
            Number W of latent functions of a two-dimensional y, which the linear model of
            coregionalisation mixes into P outputs; P if None.
        """,
    "n_latents_half": """\
        n_latents : int, optional
            Number L of latent functions, at most P; half of P, rounded up, if None.
        """,
    "hidden_units": """\
        n_hidden : int, optional
            Number H of hidden units; $hidden_rule if None.
        activation : {"relu", "leaky_relu", "erf", "shifted_erf"}, default="$activation"
            Activation g: max(0, a), max(0.35 a, a), erf(a) or 1 + erf(a).
        """,
    "readout": """\
        inference : {"sampling", "analytic"}, default="$inference"
            Whether a training step draws the latent functions and the units' biases, or integrates
            them out of the expected log likelihood in closed form (Eqns 10 to 20).
        n_samples : int, default=$n_samples
            Draws for each row of a training step.
        n_prediction_samples : int, default=128
            Nodes of a prediction: a scrambled Sobol sequence, drawn once in `fit`, moved so that
            the mean of a prediction is exact.
        """,
    "kl_annealing": """\
        kl_annealing : int, default=0
            Epochs over which the weight of the divergences rises from zero to `beta_reg`.
        """,
    "features": """\
        feature_extractor : "dkl", "deep-kernel", list of int, or callable, optional
            Deep kernel: a network, trained together with the GP, between inputs and kernel. "dkl"
            is the network of widths 1000, 1000, 500, 50 and 20 of the deep sigma point paper
            (appendix A.5): batch norm and ReLU, the features standardised by a last batch norm. A
            list gives other widths. "deep-kernel" multiplies the inputs by factors near one, made
            by two tanh layers of 50 (neural likelihoods paper). A callable gets the number of
            inputs and returns a `torch.nn.Module`, which has to pickle.
        weight_decay : float, default=1e-4
            L2 penalty on the parameters of `feature_extractor`, and on no others: weight_decay / 2
            times their squared norm is added to the loss per row.
        """,
    "weight_decay": """\
        weight_decay : float, default=1e-4
            L2 penalty on the network's parameters alone: weight_decay / 2 times their squared norm
            is added to the loss per row.
        """,
    "minibatch": """\
        max_iter : int or "auto", default="auto"
            Epochs. "auto": $auto_epochs, but no more than make $most_steps steps (and at least
            3), and enough for $least_steps steps.
        batch_size : int, default=1000
            Rows per step. A table of no more rows is trained as a whole, without random order.
        learning_rate_init : float, default=$rate
            Peak of the one-cycle schedule of Adam.
        """,
    "hidden": """\
        hidden_mean : {"linear", "identity", "concatenate"}, default="linear"
            Prior mean of the hidden functions. "linear" has learned weights, which start at the
            leading principal directions of what the layer sees; "identity" keeps that start (the
            identity if the width is that of its inputs); "concatenate" has no linear mean, and
            the kernels above see the hidden functions and the inputs.
        topology : {"feedforward", "skip-mean", "skip-mean-both", "skip-all"}, default="feedforward"
            What hidden layers above the first see (deep sigma point paper, appendix A.4, 1 to 4):
            kernel and linear mean see the layer below; the kernel sees the layer below, and the
            mean the inputs; the kernel the layer below, and the mean both; both see both.
        """,
    "collapsed": """\
        max_iter : int, default=100
            Iterations of L-BFGS; fewer if it converges. Each sees all rows, two times or more.
        """,
    "optimizer": """\
        optimizer : {"adam", "natgrad"}, default="adam"
            "natgrad" moves q(u) by natural-gradient steps and everything else by Adam. It needs a
            full covariance and an objective that is quadratic in u.
        """,
    "stopping": """\
        early_stopping : bool, default=False
            Stop when the validation score no longer improves, and keep the best parameters. The
            rows are those of `X_val`, else a share `validation_fraction` of the training rows.
        validation_fraction : float, default=0.1
            Share of the rows held out if `early_stopping` and no `X_val` is given.
        n_iter_no_change : int, default=10
            Epochs without improvement after which training stops.
        tol : float, default=1e-4
            Improvement that counts, in nats per row.
        """,
    "restarts": """\
        n_restarts : int, default=1
            Starts from other network weights and other lengthscales (of a named kernel), with the
            same inducing inputs; the one with the lowest training loss after a twentieth of the
            epochs, or five iterations of L-BFGS, is trained to the end.
        """,
    "scaling": """\
        $scales
        $jitter
        """,
    "jitter": """\
        jitter : float, default=$default_jitter
            Diagonal regularisation of the kernel matrix of the inducing inputs, relative to the
            kernel variance.
        """,
    "classes": """\
        likelihood : {"auto", "probit", "logit", "robust-max", "softmax"}, default="auto"
            "probit" and "logit" are links of one function for two classes. The others have a
            function for each class: the largest one wins with "robust-max" (Hernandez-Lobato et
            al. 2011), up to slips of probability `label_noise`; "softmax" draws the functions in
            training. "auto" is "probit" for two classes and "$of_several" for several.
        label_noise : float in (0, 1), default=1e-3
            Probability that the label is not that of the largest function ("robust-max" only).
        class_weight : dict, "balanced" or None, default=None
            Weights of the classes, which multiply those of the rows; "balanced" as in
            scikit-learn. Probabilities are then those of the weighted table.
        """,
    "share_kernel": """\
        share_kernel : bool, default=False
            Whether the GPs of a layer have one kernel and one set of inducing inputs, as in the
            doubly stochastic paper, or each its own. A step with many classes and inputs is then
            several times cheaper.
        """,
    "class_scaling": """\
        normalize_X : bool, default=True
            Standardise inputs inside the estimator.
        $jitter
        """,
    "class_attributes": """\
        classes_ : array (C,)
            Labels, sorted.
        class_weight_ : array (C,)
            Weights of the classes.
        $inducing_points
        $class_record
        $hyperparameters
        """,
    "scales": """\
        normalize_X, normalize_y : bool, default=True
            Standardise inputs and targets inside the estimator. Results come back in the units
            of y.
        noise_floor : float, default=$noise_floor
            Lower bound of the noise variance, in units of the variance of y if `normalize_y`.
            Discrete or leaking targets let a density grow without bound; the floor keeps it finite.
        """,
    "inducing_points": """\
        inducing_points_ : array (M, D) or (W, M, D)
            Of the first layer, in the units of X; among the features if there is a feature
            extractor.
        """,
    "running": """\
        warm_start : bool, default=False
            Whether `fit` goes on from the last fit's parameters and scales.
        $execution
        """,
    "execution": """\
        memory : None, str or joblib.Memory, default=None
            Where scales, and inducing inputs of k-means, are kept, so that fits on the same rows
            with an integer `random_state` share them. Each version of skgp and scikit-learn keeps
            its own; without a usable folder the fit warns and computes them. Whoever can write to
            the folder can run code in the process that fits, for objects on disk are pickles.
        dtype : {"auto", "float32", "float64"}, default="auto"
            Arithmetic of training; "auto" is $auto_dtype. Factors of kernel matrices and
            predictions are always in float64.
        device : str, default="cpu"
            Torch device of training and prediction.
        verbose : int, default=0
            If positive, write a line per epoch.
        random_state : int, RandomState or None
            Seed of the inducing inputs, of a network's weights and masks, and of the order of rows.
        """,
    "embedding": """\
        n_components : int, default=2
            Number C of latent inputs.
        kernel : {"rbf", "matern12", "matern32", "matern52"} or gpytorch kernel, default="rbf"
            A name gives one lengthscale for all latent inputs. A gpytorch kernel is copied, with
            its priors, for each latent function; its ard_num_dims may be C.
        n_latents : int, optional
            Number L of latent functions, at most P; twice `n_components`, if None.
        """,
    "latent": """\
        The latent inputs have unit normal priors, and each row a normal posterior of independent
        entries of its own, which starts at the row's principal components. The fit maximises the
        evidence lower bound, the sum over rows of E[log p(y | x)] minus the divergences of q(x), of
        q(u) and of the readout's posteriors, with one draw of x for each row of a step; missing
        entries are left out of it. New rows get posteriors of their own with all else fixed.
        """,
    "density": """\
        n_importance : int, default=50
            Draws of a row's latent inputs from which `score_samples` estimates its density.
        """,
    "sparse": """\
        n_inducing : int, default=100
            Number M of inducing inputs of each GP, started by k-means of the principal components;
            cost grows with M^2 per row.
        covariance : {"full", "diagonal"}, default="full"
            Covariance of q(u).
        beta_reg : float, default=1.0
            Weight of the divergences of what all rows share. One gives the evidence lower bound.
        """,
    "table": """\
        normalize_X : bool, default=True
            Standardise the columns inside the estimator, by their observed entries. Results come
            back in the units of X.
        noise_floor : float, default=1e-4
            Lower bound of the noise variance, in units of the variance of a column if
            `normalize_X`.
        """,
    "embedding_attributes": """\
        embedding_ : array (n, C)
            Posterior means of the training rows' latent inputs.
        embedding_std_ : array (n, C)
            Posterior standard deviations of the same.
        inducing_points_ : array (L, M, C)
            Among the latent inputs.
        $class_record
        noise_variance_ : array (P,)
            Variance of the observation noise, squared units of X.
        lengthscales_ : array (L, C)
            Of the latent inputs, whose prior has unit variance.
        stack_ : torch.nn.Module
            The layers.
        model_ : torch.nn.Module
            Stack, likelihood, posteriors of the latent inputs and scales.
        """,
    "attributes": """\
        $record
        $hyperparameters
        """,
    "hyperparameters": """\
        lengthscales_ : array (D,) or (W, D)
            Of the first layer, in the units of X; of the features if there is a feature extractor.
        stack_ : torch.nn.Module
            The layers.
        model_ : torch.nn.Module
            Stack, likelihood and scales.
        """,
    "record": """\
        $class_record
        n_outputs_ : int
            Number P of outputs.
        noise_variance_ : float or array (P,)
            Variance of the observation noise, squared units of y.
        """,
    "class_record": """\
        n_features_in_, feature_names_in_ : int, array of str
            As in scikit-learn.
        n_samples_seen_ : float
            Rows trained on, or the sum of their weights, chunks of a stream counted together.
        n_iter_ : int
            Epochs trained.
        loss_curve_ : list of float
            Mean training loss of each epoch, nats per row.
        validation_scores_ : list of float or None
            Mean log density of the validation rows after each epoch, nats per row, in units of y.
        best_validation_score_ : float or None
        """,
    "raises": """\
        ValueError
            In `fit`, if a parameter or an argument is out of its range; the message names it.
        NonFiniteLossError
            In `fit`, if training diverges and does not recover.
        """,
}


class documented:
    """Class decorator that replaces each line `$name` of the docstring by its shared text.

    Parameters
    ----------
    **values : str
        Values of the placeholders inside the shared texts.
    """

    def __init__(self, **values: str) -> None:
        defaults = {
            "auto_epochs": "100",
            "least_steps": "500",
            "most_steps": "10,000",
            "noise_floor": "1e-4",
            "default_jitter": "1e-4",
        }
        texts = {name: indent(dedent(text), " " * 4).strip() for name, text in SHARED.items()}
        self._texts = texts | defaults | values

    def __call__(self, cls: ClassT) -> ClassT:
        """The class with its docstring completed."""
        while cls.__doc__ and "$" in cls.__doc__:  # it is absent under python -OO
            cls.__doc__ = Template(cls.__doc__).substitute(self._texts)
        return cls
