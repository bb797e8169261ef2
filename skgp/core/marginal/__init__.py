"""Marginal likelihoods of all rows, and where parameters start."""
