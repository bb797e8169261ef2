"""Models in files that run nothing when they are read: safetensors, with the structure as JSON."""

from skgp.files._model_file import load, save

__all__ = ["load", "save"]
