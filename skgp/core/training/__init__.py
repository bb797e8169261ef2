"""Optimisers and the training loop."""
