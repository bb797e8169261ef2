"""scikit-learn's breast cancer table in five folds."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold

from benchmarks._protocol import Split


def make_split(split: int) -> Split:
    """The fold of this number of a shuffled, stratified five-fold cross-validation."""
    X, y = load_breast_cancer(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    train, test = list(folds)[split]
    return Split((X[train], y[train]), (X[test], y[test]), (X[:0], y[:0]))
