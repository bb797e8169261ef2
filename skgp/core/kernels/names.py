"""Names of kernels, in the spellings of several libraries."""

import re
from typing import Final

NAMES: Final = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic")

# Without case, white space, punctuation and the word "kernel".
_SPELLINGS: Final = {
    **{re.sub("_", "", name): name for name in NAMES},
    "squaredexponential": "rbf",
    "exponentiatedquadratic": "rbf",
    "gaussian": "rbf",
    "se": "rbf",
    "exponential": "matern12",
    "matern05": "matern12",
    "matern15": "matern32",
    "matern25": "matern52",
    "rq": "rational_quadratic",
}


def kernel_name(text: str) -> str | None:
    """The one of `NAMES` that a text means, such as "RBF" or "Matern-5/2"; None if it means none.

    A Matern kernel may be named by its smoothness nu as well: "matern_2.5".
    """
    return _SPELLINGS.get(re.sub(r"[\W_]", "", text).lower().removesuffix("kernel"))
