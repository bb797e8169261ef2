"""What is kept of a fitted classifier."""

from typing import Any

from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from benchmarks._protocol import Split
from skgp import scoring


def class_scores(estimator: Any, rows: Split) -> dict[str, Any]:
    """Scores of the probabilities of the test rows; the AUC of two classes only."""
    X, y = rows.test
    classes = estimator.classes_
    p = estimator.predict_proba(X)
    values = {
        "accuracy": accuracy_score(y, classes[p.argmax(1)]),
        "log_loss": log_loss(y, p, labels=classes),
        "brier": brier_score_loss(y, p, labels=classes),
        "ECE": scoring.expected_calibration_error(y, p, labels=classes),
    }
    if len(classes) == 2:
        values["AUC"] = roc_auc_score(y, p[:, 1])
    return {name: float(value) for name, value in values.items()}
