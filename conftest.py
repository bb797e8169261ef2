"""What pytest leaves alone: a module of an extra that is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("botorch") else ["skgp/botorch.py"]
