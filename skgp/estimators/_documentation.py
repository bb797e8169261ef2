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
            Of the first layer, in the units of X; in the space of the features if there is a
            feature extractor.
        """,
    "latent": """\
        The latent inputs have unit normal priors. Each row has a normal posterior with independent
        entries, which starts at the row's principal components. The fit maximises the evidence
        lower bound, with one sample of x for each row of a step; missing entries are left out of
        it. New rows get posteriors of their own with all else fixed.
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
        .. [1] M. Jankowiak and J. Gardner, "Neural likelihoods for multi-output Gaussian
            processes", 2019. https://arxiv.org/abs/1905.13697
        """,
    "parametric": """\
        M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
            ICML 2020. https://arxiv.org/abs/1910.07123
        """,
    "generalized": """\
        J. Knoblauch, J. Jewson and T. Damoulas, "Generalized variational inference: three
            arguments for deriving new posteriors", 2019. https://arxiv.org/abs/1904.02063
        """,
    "sigma_points_paper": """\
        M. Jankowiak, G. Pleiss and J. R. Gardner, "Deep sigma point processes", UAI 2020.
            https://arxiv.org/abs/2002.09112
        """,
    "doubly_stochastic": """\
        H. Salimbeni and M. P. Deisenroth, "Doubly stochastic variational inference for deep
            Gaussian processes", NIPS 2017. https://arxiv.org/abs/1705.08933
        """,
    "importance_weighted": """\
        H. Salimbeni, V. Dutordoir, J. Hensman and M. P. Deisenroth, "Deep Gaussian processes
            with importance-weighted variational inference", ICML 2019.
            https://arxiv.org/abs/1905.05435
        """,
    "big_data": """\
        J. Hensman, N. Fusi and N. D. Lawrence, "Gaussian processes for big data", UAI 2013.
            https://arxiv.org/abs/1309.6835
        """,
    "classification_paper": """\
        J. Hensman, A. G. de G. Matthews and Z. Ghahramani, "Scalable variational Gaussian
            process classification", AISTATS 2015. https://arxiv.org/abs/1411.2005
        """,
    "pseudo_inputs": """\
        E. Snelson and Z. Ghahramani, "Sparse Gaussian processes using pseudo-inputs", NIPS
            2005.
        """,
    "averages": """\
        With normal noise, one output and up to 20,000 distinct inputs in up to twenty batches,
        predictions are a mixture of the trained model and an untrained GP (see `n_inducing`). The
        weights maximise the log density of held-out rows (stacking; Yao et al. 2018), and a model
        with a weight below 0.05 is left out. Few rows leave hyper-parameters uncertain: up to 650
        distinct inputs and 64 lengthscales, the untrained GP is itself the equal mixture of 16 GPs,
        whose lengthscales, variances and noise variances are drawn from a Laplace approximation of
        their posterior (MacKay 1992). Where residuals of held-out rows are clearly not normal, the
        noise of that GP is a mixture of three normals that is fitted to these residuals. Up to
        1,500 distinct rows, its function is found with that noise too, so that outliers hardly move
        it. If training rows with equal inputs have the same target more often than by chance (rows
        that were entered twice), a prediction at the inputs of a training row repeats its target
        with the probability `copy_probability_`, and its variance can be less than
        `noise_variance_`.
        Whole weights count as repeated rows. `lengthscales_` and `stack_` belong to the trained
        model or, if it is left out, to the mode of that posterior. `noise_variance_` is the mean
        over the mixture.
        """,
    "class_averages": """\
        With `n_inducing="auto"`, two or ordered classes, up to twenty batches and 5,000 distinct
        inputs, there is a second model: an untrained GP with up to 300 inducing inputs, at the
        optimum of the bound of SVGPClassifier. Natural gradients find its q(u), and L-BFGS its
        lengthscales, variance and mean (Adam et al. 2021). For two classes and one batch of rows,
        predictions are a mixture of both models. The weights maximise the log probability of
        held-out labels (stacking; Yao et al. 2018), and a model with a weight below 0.05 is left
        out. Else the untrained GP is kept, unless the trained model is better on held-out rows by
        more than one standard error. `lengthscales_` and `stack_` belong to the trained model or,
        if it is left out, to the GP.
        """,
    "stacking_weights": """\
        stacking_weights_ : array (2,)
            Weights of the trained model and of the untrained GP in predictions, see `n_inducing`.
        """,
    "copy_probability": """\
        copy_probability_ : float
            Probability that a row with the inputs of a training row repeats its target; zero if
            the training rows show no copies. See Notes.
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
        $training_record
        validation_scores_, best_validation_score_ : None
            An embedding has no validation rows.
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
            With a power transform they hold at the mean of the column. Of a gpytorch kernel with
            several parts, the smallest of those that see the column; infinite for columns that no
            part sees, NaN for those that only parts without lengthscales see.
        input_powers_ : array (D,)
            Powers of the Box-Cox transforms of the columns of X that the kernel sees, see
            `input_warping`; one where it sees the column as it is.
        stack_ : torch.nn.Module
            The layers.
        model_ : torch.nn.Module
            Stack, likelihood and scales.
        """,
    "record": """\
        $class_record
        n_outputs_ : int
            Number P of outputs.
        output_names_ : tuple of str or None
            Names of the columns of y, or of the series; predictive distributions have them too.
        noise_variance_ : float or array (P,)
            Variance of the observation noise, squared units of y; missing if that depends on x.
        likelihood_parameters_ : dict
            What a likelihood other than the normal one has learned, by name, in units of y.
        """,
    "class_record": """\
        $training_record
        validation_scores_ : list of float or None
            Mean log density of the validation rows after each epoch, weighted as training is, nats
            per row, for a regressor in units of y. If a cross-validation found the number of
            epochs: of its held-out rows, by models of the other rows.
        best_validation_score_ : float or None
        """,
    "training_record": """\
        n_features_in_, feature_names_in_ : int, array of str
            As in scikit-learn.
        n_samples_seen_ : float
            Number of rows trained on, or the sum of their weights, over all chunks of a stream.
        n_iter_ : int
            Epochs trained, or iterations of L-BFGS; 1 if a GP was kept as it begins.
        loss_curve_ : list of float
            Mean training loss of each epoch, nats per row.
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
        "auto_dtype": "float64 for a data set of one batch and float32 for a larger one",
    }
    texts = {**SHARED, **defaults, **texts}
    while cls.__doc__ and "$" in cls.__doc__:  # it is absent under python -OO
        page = Template(cls.__doc__)
        needed = {name: dedent(texts[name]) for name in page.get_identifiers()}
        indented = {n: indent(text, " " * 4).lstrip(" ").rstrip() for n, text in needed.items()}
        cls.__doc__ = page.substitute(indented)
