"""What families with several GPs or layers may choose of a layer's inducing inputs and kernels."""

from typing import Final

from skgp.estimators._entries import Deviation, at_least, one_of

# `n_inducing` of a family with several layers, and of one that can choose it.
LAYER_INDUCING: Final = Deviation(
    annotation="int | Sequence[int]", constraint=[at_least(1), list, tuple]
)
AUTO_INDUCING: Final = Deviation(
    annotation='int | Sequence[int] | Literal["auto"]',
    default='"auto"',
    constraint=[at_least(1), list, tuple, one_of("auto")],
)
# `share_kernel` of a family of regressors.
OWN_KERNELS: Final = Deviation(
    default="False",
    text="""
    share_kernel : bool or "auto", default=$default
        Whether the GPs of a layer have one kernel and one set of inducing inputs, as in the doubly
        stochastic paper, or each its own. A step is then cheaper, the more GPs there are. "auto":
        where there are five or more.
    """,
)
