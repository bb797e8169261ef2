"""The program that times steps against depth has the paper's models, and its table their times."""

import gpytorch
import torch

from benchmarks import depth, speed
from benchmarks._peers import PeerDGP


def test_a_step_is_timed_for_each_depth(monkeypatch):
    """A cost in place of the clock: of a peer its layers, inducing inputs, samples and kernel."""

    def cost(function):
        if isinstance(function, speed.OurStep):
            layers = function.model.stack.layers
            assert all(layer.Z.shape[-2] == layers[0].Z.shape[-2] for layer in layers)
            return float(len(layers) * layers[0].Z.shape[-2])
        model = function.model
        if isinstance(model, PeerDGP):
            layers = list(model.layers)
            assert function.n_samples == 1
        else:
            layers = [model]
        kernels = [layer.covar_module.base_kernel for layer in layers]
        assert all(isinstance(kernel, gpytorch.kernels.RBFKernel) for kernel in kernels)
        points = [layer.variational_strategy.inducing_points.shape[-2] for layer in layers]
        return 2.0 * sum(points)

    small = {"B": 40, "M": 10, "SIZES": {"SGP": (1, 10), "SGP 500": (1, 20), "DGP 3": (3, 10)}}
    for name, value in small.items():
        monkeypatch.setattr(depth, name, value)
    monkeypatch.setattr(speed, "seconds", cost)
    rows = [row.strip("| ").split(" | ") for row in depth.table(repeats=1)[2:]]
    # The paper's numbers are 0.14, 1.71 and 0.49 seconds.
    assert rows == [
        ["SGP", "10.000", "20.000", "2.00", "0.14", "1.0", "1.0", "1.0"],
        ["SGP 500", "20.000", "40.000", "2.00", "1.71", "2.0", "2.0", "12.2"],
        ["DGP 3", "30.000", "60.000", "2.00", "0.49", "3.0", "3.0", "3.5"],
    ]


def test_a_peer_of_three_layers_sends_each_through_the_next():
    """Where the kernels have no variance a layer is its mean, and three lines make one."""
    torch.manual_seed(0)
    model = PeerDGP(torch.randn(5, 2), width=1, n_layers=3, kernel="rbf")
    model.layers[2].mean_module = gpytorch.means.LinearMean(1)
    for slope, layer in enumerate(model.layers, start=2):
        layer.covar_module.outputscale = 1e-10
        torch.nn.init.constant_(layer.mean_module.weights, slope)
        torch.nn.init.constant_(layer.mean_module.bias, 1.0)
    with gpytorch.settings.num_likelihood_samples(1):
        top = model(torch.tensor([[0.5, -1.0]]))
    # GPyTorch's jitter of 1e-4 is a deviation of 0.01 in a draw, and 0.13 behind slopes 3 and 4.
    assert abs(top.mean.item() - (4.0 * (3.0 * (2.0 * -0.5 + 1.0) + 1.0) + 1.0)) < 0.4
