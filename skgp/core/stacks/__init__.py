"""Layers joined: from a batch and its nodes to latent moments."""
