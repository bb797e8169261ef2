"""Data larger than memory: Parquet files, Arrow data sets and arrays on disk, chunk by chunk."""

from skgp.streams._predictions import predict_dist
from skgp.streams._rows import Rows, open_rows, read_rows

__all__ = ["Rows", "open_rows", "predict_dist", "read_rows"]
