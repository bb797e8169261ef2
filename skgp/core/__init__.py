"""The torch backend: layers, likelihoods, objectives and the training loop. It knows no estimator."""
