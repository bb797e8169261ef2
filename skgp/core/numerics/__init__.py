"""Numerical building blocks."""
