"""Where the documentation of an estimator is: for the links of its HTML representation.

The address of the site is that of "Documentation" among the URLs of the package's metadata. Without
one there are no links; scikit-learn's default would lead to its own site.
"""

import sys
from importlib.metadata import PackageNotFoundError, metadata
from itertools import accumulate

_LABEL = "Documentation"


def template(estimator: object) -> str:
    """Address of a page of the API with its name left open; empty if the site has none."""
    try:
        urls = metadata("skgp").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a folder
        return ""
    pairs = (url.split(",", 1) for url in urls)
    address = next((url.strip() for label, url in pairs if label.strip() == _LABEL), "")
    return f"{address.rstrip('/')}/generated/{{page}}.html" if address else ""


def page(estimator: object) -> dict[str, str]:
    """Its page, named after the class in the first package that exports it."""
    kind = type(estimator)
    for module in accumulate(kind.__module__.split("."), "{}.{}".format):
        if getattr(sys.modules[module], kind.__name__, None) is kind:
            break
    return {"page": f"{module}.{kind.__name__}"}
