"""Kernels and their inducing inputs."""
