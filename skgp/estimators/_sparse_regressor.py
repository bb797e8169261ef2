"""What SVGP, VFITC and PPGPR share: one layer, which natural gradients may train."""

from typing import Any, ClassVar

from sklearn.utils._param_validation import StrOptions

from skgp.core.likelihoods import Gaussian
from skgp.core.optimizers import Adam, NaturalGradient, Optimizer
from skgp.core.variational import Covariance, NaturalPosterior
from skgp.estimators._model import StackModel
from skgp.estimators._stack_regressor import StackRegressor

# A natural step on one batch can put q(u) far from what suits the next, whose gradients are then a
# hundred times as large. With the usual memory of a thousand steps, which is most of a fit, noise
# and kernel would hardly move any more.
_SECOND_MOMENT_DECAY = 0.95


class SparseRegressor(StackRegressor):
    """Abstract base: a family adds its objective and, if need be, another layer."""

    # Parameters that every family stores in its constructor.
    optimizer: str

    _natural_rate: ClassVar[float] = 0.5  # peak of natural steps; 1 forgets all earlier batches

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackRegressor._parameter_constraints,
        "optimizer": [StrOptions({"adam", "natgrad"})],
    }

    def _covariance(self) -> Covariance:
        return "natural" if self.optimizer == "natgrad" else super()._covariance()

    def _make_optimizer(self, model: StackModel, n_data: float) -> Optimizer:
        natural = [m for m in model.modules() if isinstance(m, NaturalPosterior)]
        if not natural:
            return super()._make_optimizer(model, n_data)
        apart = {id(p) for posterior in natural for p in posterior.parameters()}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in apart]
        # A step of length rho multiplies the old precision by 1 - rho beta_reg.
        rate = self._natural_rate / max(1.0, self._divergence_weight(n_data))
        adam = Adam(others, self.learning_rate_init, _SECOND_MOMENT_DECAY)
        return NaturalGradient(natural, rate, n_data, adam)

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.optimizer != "natgrad":
            return
        if not Gaussian.is_quadratic(self._objective().term):
            model = type(self).__name__ + (" with gamma" if getattr(self, "gamma", None) else "")
            raise ValueError(
                "optimizer='natgrad' needs an objective that is quadratic in u, and that of "
                f"{model} is not: natural-gradient steps could leave q(u) without a covariance; "
                "use optimizer='adam'"
            )
        if self.covariance != "full":
            raise ValueError(
                "optimizer='natgrad' moves a full covariance: use covariance='full' or "
                f"optimizer='adam', got covariance={self.covariance!r}"
            )
