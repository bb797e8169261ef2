"""Where the documentation of an estimator is."""

import sys
from importlib.metadata import PackageNotFoundError, metadata
from itertools import accumulate

_LABEL = "Documentation"


class DocLinks:
    """Mixin of estimators whose HTML representation links to the pages of this package.

    The address of the site is that of "Documentation" among the URLs of the package's metadata.
    Without one there are no links; scikit-learn's default would lead to its own site.
    """

    _doc_link_module = "skgp"

    @property
    def _doc_link_template(self) -> str:
        address = _address()
        return f"{address.rstrip('/')}/generated/{{page}}.html" if address else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """The page is named after the class, in the first package that exports it."""
        kind = type(self)
        for module in accumulate(kind.__module__.split("."), "{}.{}".format):
            if getattr(sys.modules[module], kind.__name__, None) is kind:
                break
        return {"page": f"{module}.{kind.__name__}"}


def _address() -> str:
    """Address of the built documentation, empty if the metadata have none."""
    try:
        urls = metadata("skgp").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a folder
        return ""
    pairs = (url.split(",", 1) for url in urls)
    return next((url.strip() for label, url in pairs if label.strip() == _LABEL), "")
