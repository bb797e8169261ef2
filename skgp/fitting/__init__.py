"""From rows to a trained model; no family of estimators is known here."""
