"""From parameters to recipes: what the families of estimators are made of."""
