"""The order of the examples on the gallery's page, from the first use to the special."""

ORDER = (
    "quickstart",
    "diagnostics",
    "choose_beta_reg",
    "cross_fitting",
    "deep_models",
    "conditional_density",
    "time_series",
    "explaining_intervals",
    "conformal",
    "several_outputs",
    "counts",
    "censored",
    "function_draws",
    "classification",
    "convolution",
    "embedding",
    "larger_than_memory",
)


def place(file_name: str) -> tuple[int, str]:
    """Sort key of a script; one that is not listed comes last."""
    name = file_name.removesuffix(".py")
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)
