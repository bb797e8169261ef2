"""The torch backend: layers, likelihoods, objectives, the training loop; no estimator."""
