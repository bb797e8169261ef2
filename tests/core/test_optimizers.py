"""Optimisers under the training loop: Adam by hand, L-BFGS to closed-form optima."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from line_problem import Line, Rows, Sick, fit, flat, generator, line, plan, squared_error
from oracles.exact import log_marginal_likelihood
from oracles.kernels import covariance
from scipy.optimize import minimize
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.training.optimizers import LBFGS, Adam, Clipped, Optimizer
from skgp.core.training.plan import Candidate
from skgp.core.training.run import Run
from skgp.core.training.schedules import constant, one_cycle


def lbfgs(module: nn.Module, loss: Any) -> Candidate:
    return Candidate(module, loss, LBFGS(list(module.parameters())))


class Parabola(nn.Module):
    """(w - centre)^T H (w - centre) / 2 + 3 with condition number 100."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3).double())
        Q, _ = torch.linalg.qr(torch.arange(9.0).double().reshape(3, 3).sin())
        self.H = Q @ torch.diag(torch.tensor([0.1, 1.0, 10.0]).double()) @ Q.mT
        self.b = torch.tensor([1.0, -2.0, 0.5]).double()

    def loss(self, batch: Batch | None = None, step: int = 0) -> Tensor:
        return 0.5 * self.w @ self.H @ self.w - self.b @ self.w + 3.0


# ------------------------------------------------------------------------ Adam


def test_adam_is_that_of_torch_with_the_schedule() -> None:
    """Two batches per epoch in the order served, learning rate 0.1 * one_cycle(step / steps)."""
    data = Rows(8)
    module, _ = fit(line(), data)
    reference = Line()
    adam = torch.optim.Adam([reference.w], lr=1.0, foreach=False)
    loss = squared_error(reference)
    *served, checked = copy.deepcopy(data.served)
    assert checked == served[-1]  # where the last step has led
    for step, rows in enumerate(served):
        adam.param_groups[0]["lr"] = 0.1 * one_cycle(step / len(served))
        adam.zero_grad()
        loss(data.batch(torch.tensor(rows)), step).backward()
        adam.step()
    assert len(served) == 10
    assert sorted(flat(served[:2])) == list(range(8))
    np.testing.assert_allclose(module.w.detach(), reference.w.detach(), rtol=1e-12)


@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq", "unknown", "step"])
def test_adam_refuses_the_moments_of_another_model(name: str) -> None:
    """A fused step would write beyond their ends."""
    parameter = nn.Parameter(torch.ones(3))
    adam = Adam([parameter], 0.1)
    parameter.grad = torch.ones(3)
    adam.step(lambda: torch.zeros(()), 1.0)
    state = copy.deepcopy(adam.state_dict())
    adam.load_state_dict(state)
    state["states"][0][name] = torch.zeros(0)
    with pytest.raises(ValueError, match="another model"):
        adam.load_state_dict(state)


@pytest.mark.parametrize("beta_2", [0.95, 0.999])
def test_one_outlying_gradient_shortens_the_steps_of_adam_for_as_long_as_its_memory(
    beta_2: float,
) -> None:
    """Step t goes as far as the mean gradient over the root of its mean square, of t gradients."""
    gradients = np.ones(200)
    gradients[50] = 100.0
    w = nn.Parameter(torch.zeros(1).double())
    optimizer = Adam([w], 0.1, beta_2)
    moved = []
    for gradient in gradients:

        def closure(gradient: float = gradient) -> Tensor:
            w.grad = torch.full_like(w, gradient)
            return torch.tensor(0.0)

        before = w.item()
        optimizer.step(closure, 1.0)
        moved.append(before - w.item())
    for t in (40, 51, 60, 100, 200):
        weights = [decay ** np.arange(t)[::-1] for decay in (0.9, beta_2)]
        mean, square = (np.average(gradients[:t] ** k, weights=u) for k, u in enumerate(weights, 1))
        assert moved[t - 1] == pytest.approx(0.1 * mean / math.sqrt(square), rel=1e-6)


@pytest.mark.parametrize("chunk", [10_000, 30])
def test_moments_of_adam_are_zero_before_they_are_denormal(chunk: int) -> None:
    """Where gradients have stopped, as those of inducing inputs that no row is near any more.

    Each chunk of a stream has an optimiser of its own, which goes on where the last one stopped.
    """
    w = nn.Parameter(torch.zeros(3))
    optimizer = Adam([w], 0.1, second_moment_decay=0.95)
    tiny = torch.finfo(w.dtype).tiny
    for step in range(1500):

        def closure(gradient: float = 1e-3 if step < 5 else 0.0) -> Tensor:
            w.grad = torch.tensor([1.0, gradient, 0.0])
            return torch.tensor(0.0)

        if step % chunk == chunk - 1:
            last, optimizer = optimizer.state_dict(), Adam([w], 0.1, second_moment_decay=0.95)
            optimizer.load_state_dict(last)
        optimizer.step(closure, 1.0)
        state = optimizer.state_dict()["states"][0]
        moments = torch.stack([state["exp_avg"], state["exp_avg_sq"]])
        assert not ((moments != 0.0) & (moments < tiny)).any()
    np.testing.assert_allclose(moments, [[1.0, 0.0, 0.0]] * 2, rtol=1e-5)


class Recording(Optimizer):
    """Takes no step and notes the gradients that it is given."""

    def __init__(self, parameter: nn.Parameter) -> None:
        self.parameter = parameter
        self.seen: list[list[float]] = []

    def step(self, closure: Any, rate: float) -> float:
        loss = closure().item()
        self.seen.append(self.parameter.grad.tolist())
        return loss

    def shorten(self, factor: float) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"n": len(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["n"] == 3


def clipped(gradients: list[list[float]]) -> tuple[Clipped, Recording]:
    """The optimisers after steps with these gradients."""
    parameter = nn.Parameter(torch.zeros(2).double())
    recording = Recording(parameter)
    optimizer = Clipped([parameter], recording)
    for gradient in gradients:
        follow(optimizer, recording, gradient)
    return optimizer, recording


def follow(optimizer: Clipped, recording: Recording, gradient: list[float]) -> None:
    def closure() -> Tensor:
        recording.parameter.grad = torch.tensor(gradient).double()
        return torch.tensor(7.0)

    assert optimizer.step(closure, 1.0) == 7.0


def test_gradients_of_usual_length_are_not_clipped() -> None:
    gradients = [[3.0, 4.0], [0.0, 1.0], [6.0, -8.0], [30.0, 0.0]]
    assert clipped(gradients)[1].seen == gradients


def test_a_long_gradient_is_ten_times_as_long_as_the_geometric_mean_of_those_before() -> None:
    _, recording = clipped([[3.0, 4.0], [0.0, 20.0], [6e9, 8e9], [0.0, 1e30]])
    usual = 10.0  # of 5 and 20
    np.testing.assert_allclose(recording.seen[2], [6.0 * usual, 8.0 * usual], rtol=1e-12)
    usual *= 10.0 ** (1 / 3)  # the third counts as what it was clipped to
    np.testing.assert_allclose(recording.seen[3], [0.0, 10.0 * usual], rtol=1e-12)


def test_gradients_that_grow_for_good_become_usual() -> None:
    _, recording = clipped([[1.0, 0.0]] * 50 + [[1e6, 0.0]] * 130)
    lengths = np.array(recording.seen)[:, 0]
    # Each clipped step adds a factor of 10^(1/20): from 10 to 10^6 in a hundred steps.
    np.testing.assert_allclose(lengths[50:60], 10.0 ** (1.0 + np.arange(10) / 20), rtol=1e-9)
    assert lengths[50 + 99] < 1e6 == lengths[50 + 101] == lengths[-1]


def test_a_gradient_of_zero_is_no_length_to_compare_with() -> None:
    _, recording = clipped([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [9.0, 0.0]])
    assert recording.seen[-1] == [9.0, 0.0]


def test_a_share_shortens_gradients_after_they_are_clipped() -> None:
    parameter = nn.Parameter(torch.zeros(2).double())
    recording = Recording(parameter)
    optimizer = Clipped([parameter], recording, share=0.1)
    for length in [1.0, 2.0, 1000.0]:
        follow(optimizer, recording, [length, 0.0])
    usual = math.sqrt(2.0)
    np.testing.assert_allclose(np.array(recording.seen)[:, 0], [0.1, 0.2, usual], rtol=1e-12)
    assert optimizer.state_dict()["usual"] > math.log(usual)


def test_what_is_usual_is_part_of_the_state() -> None:
    optimizer, _ = clipped([[1.0, 0.0]] * 3)
    again, recording = clipped([])
    again.load_state_dict(optimizer.state_dict())
    follow(again, recording, [100.0, 0.0])
    np.testing.assert_allclose(recording.seen, [[10.0, 0.0]], rtol=1e-12)


def test_adam_is_never_converged_and_returns_the_loss_before_the_step() -> None:
    module = Line()
    optimizer = Adam([module.w], 0.1)
    batch = Rows(4).batch(torch.arange(4))
    loss = squared_error(module)

    def closure() -> Tensor:
        module.zero_grad()
        value = loss(batch, 0)
        value.backward()
        return value

    before = loss(batch, 0).item()
    assert optimizer.step(closure, 0.0) == before
    assert not optimizer.is_converged
    assert loss(batch, 0).item() == before


# ---------------------------------------------------------------------- L-BFGS


def test_lbfgs_that_was_shortened_takes_smaller_steps() -> None:
    """Its first step goes along the gradient, at most as far as the rate times 1 / |gradient|_1."""
    moved = []
    for factor in (1.0, 1e-3):
        parabola = Parabola()
        optimizer = LBFGS(list(parabola.parameters()))
        optimizer._lbfgs.param_groups[0]["line_search_fn"] = None
        optimizer.shorten(factor)

        def closure(parabola: Parabola = parabola) -> Tensor:
            parabola.zero_grad()
            value = parabola.loss()
            value.backward()
            return value

        optimizer.step(closure, 1.0)
        moved.append(parabola.w.detach())
    np.testing.assert_allclose(moved[1], 1e-3 * moved[0], rtol=1e-9)


def test_lbfgs_finds_the_minimum_of_a_quadratic_and_stops() -> None:
    """w* = H^-1 b; training ends long before max_iter because the loss no longer changes."""
    parabola = Parabola()
    module, history = fit(lbfgs(parabola, parabola.loss), Rows(4), max_iter=500, schedule=constant)
    assert module is parabola
    expected = torch.linalg.solve(parabola.H, parabola.b)
    np.testing.assert_allclose(parabola.w.detach(), expected, rtol=0, atol=1e-4)
    least = 3.0 - 0.5 * (parabola.b @ expected).item()
    assert history.loss_curve[0] == 3.0
    assert history.loss_curve[-1] == pytest.approx(least, abs=1e-8)
    assert 5 < len(history.loss_curve) < 40
    changes = np.abs(np.diff(history.loss_curve))
    assert changes[-1] < 1e-9
    assert changes[:-1].min() >= 1e-9  # it stopped at the first step that changed nothing


class Evidence(nn.Module):
    """-log N(y; 0, K + noise) / n of an RBF kernel, written with torch.distributions."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.zeros(3).double())  # lengthscale, variance, noise
        self.r2 = torch.from_numpy(np.square(x - x.T))
        self.y = torch.from_numpy(y)

    def loss(self, batch: Batch, step: int) -> Tensor:
        lengthscale, variance, noise = self.log.exp()
        K = variance * torch.exp(-0.5 * self.r2 / lengthscale**2) + noise * torch.eye(len(self.y))
        zero = torch.zeros_like(self.y)
        log_prob = torch.distributions.MultivariateNormal(zero, K).log_prob(self.y)
        return -log_prob / len(self.y)


def test_lbfgs_maximises_a_marginal_likelihood(rng: np.random.Generator) -> None:
    """The optimum of SciPy's simplex search on the textbook formula."""
    x = rng.uniform(-3, 3, (25, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.standard_normal(25)
    module = Evidence(x, y)
    _, history = fit(lbfgs(module, module.loss), Rows(4), max_iter=200, schedule=constant)
    assert len(history.loss_curve) < 60

    def oracle(log: np.ndarray) -> float:
        lengthscale, variance, noise = np.exp(log)
        K = variance * covariance("rbf", x / lengthscale, x / lengthscale, np.ones(1))
        return -log_marginal_likelihood(K, y, noise) / 25

    best = minimize(
        oracle, np.array([-0.3, 0.0, -2.5]), method="Nelder-Mead", options={"xatol": 1e-4}
    )
    np.testing.assert_allclose(module.log.detach(), best.x, rtol=0, atol=2e-3)
    assert history.loss_curve[-1] == pytest.approx(best.fun, abs=1e-6)


def test_lbfgs_evaluates_no_point_twice() -> None:
    """The last point of a line search is where the next step begins; a check ends the fit."""
    module = Line()
    calm = Sick(module, set(), lambda value: value)
    fit(lbfgs(module, calm), Rows(4), max_iter=200, schedule=constant)
    points = [tuple(point) for point in calm.seen[:-1]]
    assert len(points) > 5
    assert len(set(points)) == len(points)


def test_lbfgs_goes_on_from_its_state() -> None:
    """Three steps, then three more twice: with the curvature so far, and without."""
    parabola = Parabola()
    task, settings = lbfgs(parabola, parabola.loss), plan(schedule=constant, max_iter=20)
    run = Run(task, Rows(4), settings, generator())
    for _ in range(3):
        run.epoch()
    state, start = run._copy(), parabola.w.detach().clone()

    def three_more() -> list[float]:
        assert torch.equal(parabola.w.detach(), start)
        for _ in range(3):
            run.epoch()
        return run.history.loss_curve[-3:]

    ends = []
    for _ in range(2):
        run._restore(state)
        ends.append((three_more(), parabola.w.tolist()))
    assert ends[0] == ends[1]
    run._restore(state)
    run.optimizer = LBFGS([parabola.w])
    assert three_more()[1:] != ends[0][0][1:]


def test_restoring_an_earlier_state_is_no_convergence() -> None:
    """The step that is taken again starts at the loss of the step before it."""
    parabola = Parabola()
    optimizer = LBFGS([parabola.w])

    def closure() -> Tensor:
        parabola.zero_grad()
        value = parabola.loss()
        value.backward()
        return value

    optimizer.step(closure, 1.0)
    state, w = copy.deepcopy(optimizer.state_dict()), parabola.w.detach().clone()
    first = optimizer.step(closure, 1.0)
    with torch.no_grad():
        parabola.w.copy_(w)
    optimizer.load_state_dict(state)
    assert optimizer.step(closure, 1.0) == first
    assert not optimizer.is_converged


@pytest.mark.parametrize("at", range(2, 7))
def test_lbfgs_heals_wherever_the_loss_is_not_finite(at: int) -> None:
    """In a line search or at the start of a step: one rollback, then on to the minimum."""
    module = Line()
    sick = Sick(module, {at}, lambda value: value * math.nan)
    _, history = fit(lbfgs(module, sick), Rows(4), max_iter=200, schedule=constant)
    assert len(sick.seen) > at
    assert np.all(np.isfinite(history.loss_curve))
    np.testing.assert_allclose(module.w.tolist(), [2.0, 1.0], rtol=0, atol=1e-3)


def test_the_closure_of_a_step_returns_a_number_without_a_graph() -> None:
    """L-BFGS turns it into a float, at which newer versions of torch warn otherwise."""
    run = Run(line(), Rows(8), plan(), generator())
    loss = run.gradients(run.data.batch(torch.arange(8)), 0)
    assert not loss.requires_grad
    assert run.parameters[0].grad is not None
