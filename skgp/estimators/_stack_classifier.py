"""What sparse and deep classifiers share: the likelihood, and where its functions start."""

from numbers import Real
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.bernoulli import Logit, Probit
from skgp.core.class_likelihood import ClassLikelihood
from skgp.core.nodes import NodeRule
from skgp.core.robust_max import RobustMax
from skgp.core.softmax import Softmax
from skgp.core.stack import Stack
from skgp.estimators._model import ClassModel
from skgp.estimators._setup import Setup
from skgp.estimators._stack_estimator import Outputs, StackEstimator
from skgp.estimators._trained_classifier import TrainedClassifier
from skgp.estimators._validation import Rows

_DRAWS = 16  # of the softmax, for each row of a training step
_NODES = 512  # of the softmax, in a prediction
_OF_TWO: Final = ("probit", "logit")


class StackClassifier(StackEstimator, TrainedClassifier):
    """Abstract base: a family adds its objective and, if need be, hidden layers or another top."""

    # Parameters that every family stores in its constructor.
    likelihood: str
    label_noise: float
    share_kernel: bool = False  # not every family has it

    model_: ClassModel

    _of_several: ClassVar[str] = "softmax"  # the likelihood "auto" of three or more classes

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackEstimator._parameter_constraints,
        **TrainedClassifier._parameter_constraints,
        "likelihood": [StrOptions({"auto", *_OF_TWO, "robust-max", "softmax"})],
        "label_noise": [Interval(Real, 0, 1, closed="neither")],
    }

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        n_total: float | None = None,
    ) -> Self:
        """Train one epoch on a chunk of rows, going on from the calls before.

        The first call fixes the classes. The scales and the initial inducing inputs come from the
        first rows: while there are few, the model starts anew whenever their number has doubled.
        The learning rate stays at `learning_rate_init`.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,)
        classes : array-like of shape (C,), optional
            All labels that chunks may contain; those of the first chunk if None. Later calls
            need none.
        sample_weight : array-like of shape (n,), optional
        n_total : float, optional
            Rows (or sum of weights) of the whole stream, by which the divergence is divided; the
            rows seen so far if None.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `early_stopping` or class_weight="balanced" is set, if `classes` differ from those
            of the first call, or as in `fit`.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "partial_fit does not support class_weight='balanced', for the shares of the "
                "classes in a stream are unknown: pass a dict of weights"
            )
        declared = None if classes is None else np.unique(classes)
        arguments = {"X": X, "y": y, "sample_weight": sample_weight, "classes": declared}
        return self._become(lambda working: working._fit_chunk(arguments, n_total))

    # ------------------------------------------------------------- helpers

    def _fitted_model(self) -> ClassModel:
        super()._fitted_model()
        return self.model_

    def _condensed(self, rows: Rows) -> Rows:
        """In a table of one batch equal rows are one, of the sum of their weights.

        The draws of a step are those of a row: so a repeated row is what a row of weight two is,
        and the order of the rows does not matter.
        """
        return rows.merged() if len(rows.X) <= self.batch_size else rows

    def _make_likelihood(self, seed: int) -> ClassLikelihood:
        n_classes = len(self.classes_)
        name = self.likelihood
        if name == "auto":
            name = "probit" if n_classes == 2 else self._of_several
        if name in _OF_TWO:
            if n_classes > 2:
                raise ValueError(
                    f"likelihood={name!r} is for two classes, and y has {n_classes}: use "
                    "'robust-max', 'softmax' or 'auto'"
                )
            return Probit() if name == "probit" else Logit()
        if name == "softmax":
            return Softmax(n_classes, _DRAWS, _NODES, seed)
        return RobustMax(n_classes, self.label_noise)

    def _shares_kernel(self) -> bool:
        return self.share_kernel

    def _latent_shape(self) -> tuple[int, ...]:
        one = len(self.classes_) == 2 and self.likelihood in ("auto", *_OF_TWO)
        return () if one else (len(self.classes_),)

    def _outputs(self, setup: Setup) -> Outputs:
        """Least squares for labels of plus and minus one unit are where the functions start."""
        likelihood = self._make_likelihood(setup.seed).double()
        codes = setup.Y[:, 0].long()
        signs = 2.0 * torch.nn.functional.one_hot(codes, likelihood.n_classes).mT.double() - 1.0
        signs = signs[-likelihood.n_latents :]
        share = (1.0 + signs @ setup.weight / setup.weight.sum()) / 2.0
        least = 0.5 / len(codes)  # a class may be missing from a chunk
        offset = torch.special.ndtri(share.clamp(least, 1.0 - least))

        def model(stack: Stack, x: Tensor, nodes: NodeRule) -> ClassModel:
            with torch.no_grad():
                stack.top.mean.copy_(offset)
            return ClassModel(stack, likelihood, nodes)

        centred = signs - (2.0 * share - 1.0).unsqueeze(-1)
        return Outputs(likelihood.start_scale * centred, lambda noise_var: None, model)
