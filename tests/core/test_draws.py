"""Seeds for purposes, generators and Sobol sequences."""

import itertools

import numpy as np
import pytest
import torch

from skgp.core.numerics.draws import make_generator, make_seed, sobol_normals


def normals(seed: int, *key: str | int) -> np.ndarray:
    return torch.randn(2000, generator=make_generator(seed, *key), dtype=torch.float64).numpy()


def test_seeds_are_known_numbers() -> None:
    """Of NumPy's mixing and zlib's check sums, in every process and on every platform."""
    mixed = np.random.SeedSequence((7, 1489782149, 2)).generate_state(1)[0]
    assert make_seed(7, "slope", 2) == mixed


@pytest.mark.parametrize("key", [(), ("slope",), ("slope", 1), ("nodes", 1), (1,), (1, 0, 2)])
def test_a_key_gives_the_same_seed_again_and_another_seed_another(key: tuple[str | int]) -> None:
    seeds = [make_seed(seed, *key) for seed in (0, 1, 2**31 - 1, 0)]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_draws_for_different_purposes_are_independent() -> None:
    """All pairs of keys and seeds, in five standard errors of a correlation."""
    keys = [
        ("slope",),
        ("slope", 1),
        ("slope", 2),
        ("nodes",),
        ("step", 0),
        ("step", 1),
        ("fixed",),
    ]
    draws = [normals(seed, *key) for seed in (0, 1) for key in keys]
    for a, b in itertools.combinations(draws, 2):
        assert abs(np.mean(a * b)) < 5.0 / np.sqrt(len(a))


def test_sobol_sequences_of_different_seeds_are_scrambled_apart() -> None:
    first, again, other = (sobol_normals(64, 3, make_seed(s, "fixed")) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.isclose(first, other).any()
