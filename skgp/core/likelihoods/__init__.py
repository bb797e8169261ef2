"""From latent functions to data."""
