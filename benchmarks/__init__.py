"""Benchmarks: speed against GPyTorch, and the published tables on real data."""
