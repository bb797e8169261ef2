"""Layers of Gaussian processes."""
