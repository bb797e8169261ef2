"""What the docstrings of the estimators share, written once and put in where a class is defined."""

from collections.abc import Mapping
from string import Template
from textwrap import dedent, indent
from typing import Final

# A line `$name` of a class docstring, or of a text, is replaced by the text of that name.
SHARED: Final[dict[str, str]] = {
    "class_attributes": """\
        classes_ : array (C,)
            Labels, sorted.
        class_weight_ : array (C,)
            Weights of the classes.
        likelihood_parameters_ : dict
            "thresholds" of "ordinal" (C - 1,), the first of them zero, in units of the noise of f;
            else empty.
        $inducing_points
        $class_record
        $hyperparameters
        """,
    "inducing_points": """\
        inducing_points_ : array (M, D) or (W, M, D)
            Of the first layer, in the units of X; among the features if there is a feature
            extractor.
        """,
    "latent": """\
        The latent inputs have unit normal priors, and each row a normal posterior of independent
        entries of its own, which starts at the row's principal components. The fit maximises the
        evidence lower bound, the sum over rows of E[log p(y | x)] minus the divergences of q(x), of
        q(u) and of the readout's posteriors, with one draw of x for each row of a step; missing
        entries are left out of it. New rows get posteriors of their own with all else fixed.
        """,
    "fitted_regressor": """\
        Attributes
        ----------
        $inducing_points
        $attributes

        Raises
        ------
        $raises
        """,
    "fitted_classifier": """\
        Attributes
        ----------
        $class_attributes

        Raises
        ------
        $raises
        """,
    "neural_likelihoods": """\
        References
        ----------
        M. Jankowiak and J. Gardner, Neural Likelihoods for Multi-Output Gaussian Processes,
        arXiv:1905.13697, 2019.
        """,
    "fitted_embedding": """\
        Attributes
        ----------
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

        Raises
        ------
        $raises
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
        likelihood_parameters_ : dict
            What a likelihood other than the normal one has learned, by name, in units of y.
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
            Mean log density of the validation rows after each epoch, nats per row, in units of y;
            of the rows left out, if a cross-validation found the number of epochs.
        best_validation_score_ : float or None
        """,
    "raises": """\
        ValueError
            In `fit`, if a parameter or an argument is out of its range; the message names it.
        NonFiniteLossError
            In `fit`, if training diverges and does not recover.
        """,
}


def complete_docstring(cls: type, texts: Mapping[str, str]) -> None:
    """Replace each line `$name` of the docstring of a class by the text of that name.

    `texts` are further ones beside `SHARED`, such as the values of placeholders inside these.
    """
    defaults = {
        "auto_epochs": "100",
        "least_steps": "500",
        "most_steps": "10,000",
        "auto_dtype": "float64 for a table of one batch and float32 for a larger one",
    }
    texts = {
        name: indent(dedent(text), " " * 4).strip()
        for name, text in {**SHARED, **defaults, **texts}.items()
    }
    while cls.__doc__ and "$" in cls.__doc__:  # it is absent under python -OO
        cls.__doc__ = Template(cls.__doc__).substitute(texts)
