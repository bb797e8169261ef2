"""Recipes of the models of the neural likelihoods paper."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from skgp.core.numerics.elementwise import Passes
from skgp.core.objectives.objective import ELBO
from skgp.fitting.plans import NO_EARLY_STOPPING, Epochs, Minibatch, minibatch_plan
from skgp.fitting.recipe import Recipe, float64_if_one_batch, pick
from skgp.recipes.assemble import DEEP_EPOCHS, stack_recipe
from skgp.recipes.hidden import hidden_layers
from skgp.recipes.latent_inputs import latent_input_loss, with_latent_inputs
from skgp.recipes.losses import DivergenceWeight, stack_repeats
from skgp.recipes.optimizers import adam, batches_adam
from skgp.recipes.readouts import (
    Hidden,
    Inference,
    LatentUnits,
    MakeMixing,
    MixingNetwork,
    ReadoutOutputs,
    at_most,
    three_quarters,
    top_below,
)
from skgp.recipes.spec import Architecture, Inducing, StackSpec
from skgp.recipes.stack import build_stack

_EPOCHS: Final = Epochs(starts_near=False)  # what is mixed, and how, is learned


def readout_of(estimator: Any, mixing: MakeMixing, units: LatentUnits | Hidden) -> ReadoutOutputs:
    """The readout of an estimator's parameters."""
    return ReadoutOutputs(
        pick(Inference, estimator),
        estimator.n_latents,
        estimator.noise_floor,
        mixing,
        units,
        getattr(estimator, "n_prediction_samples", 1),  # families without it predict one normal
    )


def readout_recipe(estimator: Any, mixing: MakeMixing, units: LatentUnits | Hidden) -> Recipe:
    """One layer of GPs below a readout.

    The lower the noise, the shorter are the steps that a network of the inputs allows: Adam has to
    see that its gradients grow.
    """
    outputs = readout_of(estimator, mixing, units)
    make_adam = batches_adam if isinstance(mixing, MixingNetwork) else adam
    spec = _spec(estimator, outputs, units, Architecture((estimator.kernel,), outputs.below))
    optimizer = partial(make_adam, estimator.learning_rate_init)
    return stack_recipe(estimator, spec, objective=ELBO, epochs=_EPOCHS, optimizer=optimizer)


def deep_readout_recipe(estimator: Any, mixing: MakeMixing, units: LatentUnits | Hidden) -> Recipe:
    """Hidden layers of GPs below a readout, of more functions than one layer has."""
    outputs = replace(readout_of(estimator, mixing, units), default_latents=three_quarters)
    spec = _spec(estimator, outputs, units, hidden_layers(estimator, outputs.nodes))
    optimizer = partial(batches_adam, estimator.learning_rate_init)
    epochs = replace(_EPOCHS, most_steps=DEEP_EPOCHS.most_steps)
    return stack_recipe(estimator, spec, objective=ELBO, epochs=epochs, optimizer=optimizer)


def _spec(
    estimator: Any, outputs: ReadoutOutputs, units: LatentUnits | Hidden, architecture: Architecture
) -> StackSpec:
    spec = StackSpec.of(estimator, outputs, estimator.covariance, architecture)
    return replace(spec, top=top_below(units), shares_kernel=estimator.share_kernel)


def embedding_recipe(estimator: Any, mixing: MakeMixing, units: LatentUnits | Hidden) -> Recipe:
    """One layer of GPs of latent inputs below a readout.

    Each row has a posterior of its own, so none can be held out or be new to a stream.
    """
    latents = partial(at_most, 2 * estimator.n_components)
    outputs = replace(readout_of(estimator, mixing, units), default_latents=latents)
    beta_reg = DivergenceWeight(estimator.beta_reg)
    spec = StackSpec(
        architecture=Architecture((estimator.kernel,), outputs.below),
        inducing=pick(Inducing, estimator),
        covariance=estimator.covariance,
        batch_size=estimator.batch_size,
        outputs=outputs,
        top=top_below(units),
        shares_kernel=estimator.share_kernel,
        ard=False,  # one lengthscale for all latent inputs (section 7.2.3)
    )
    return Recipe(
        build=partial(build_stack, spec),
        loss=partial(latent_input_loss, ELBO, beta_reg),
        optimizer=partial(adam, estimator.learning_rate_init),
        plan=partial(
            minibatch_plan,
            pick(Minibatch, estimator),
            NO_EARLY_STOPPING,
            replace(_EPOCHS, least_steps=1000),
        ),
        dtype=partial(float64_if_one_batch, estimator.batch_size),
        complete=with_latent_inputs,
        repeats=stack_repeats,
        passes=Passes(estimator.compile),
    )
