"""benchmarks.epochs: the time of an epoch from that of whole fits."""

from benchmarks import epochs
from skgp import DSPPRegressor


def test_an_epoch_is_what_further_epochs_cost(monkeypatch):
    """Seven seconds for a fit, three for each of its epochs, half of one for predictions."""

    def cost(function):
        model = function.func.__self__
        return 7.0 + 3.0 * model.max_iter if function.func.__name__ == "fit" else 0.5

    monkeypatch.setattr(epochs, "seconds", cost)
    model = DSPPRegressor(n_inducing=5, early_stopping=False, random_state=0)
    assert epochs.times(model, n_rows=40) == (3.0, 0.5)
