"""Checks the built site: each public estimator is two clicks from its start, with an example.

`python -m tools.check_site doc/_build/html` names the estimators that are not, and exits with
status 1 if there are any. `--external` lists the addresses outside the site, with the number of
pages that link there, and checks nothing: a build has no network.
"""

import argparse
import inspect
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Final

from sklearn.base import BaseEstimator

import skgp
from skgp import compose
from skgp.estimators import baselines

MODULES: Final[tuple[ModuleType, ...]] = (skgp, compose, baselines)
# What an example is on a page: a doctest of the docstring, or a tile of the gallery.
EXAMPLES: Final = ("doctest highlight", "highlight-python", "sphx-glr-thumbcontainer")


class Page(HTMLParser):
    """The addresses that a page links to, and whether it has an example."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.has_example = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link or an example."""
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.add(values.get("href", "").partition("#")[0])
        self.has_example |= any(part in values.get("class", "") for part in EXAMPLES)


def reached(site: Path, page: str) -> set[str]:
    """Pages of the site that a page links to, by their names from the root."""
    links = Page(site / page).links
    inside = {(site / page).parent / link for link in links if "://" not in link and link}
    files = {path.resolve() for path in inside if path.suffix == ".html"}
    return {str(path.relative_to(site)) for path in files if path.exists()}


def faults(site: Path) -> list[str]:
    """What is wrong with the page of each public estimator."""
    one = reached(site, "index.html")
    two = one.union(*(reached(site, page) for page in one))
    found = []
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) and issubclass(value, BaseEstimator)):
                continue
            page = f"generated/{module.__name__}.{name}.html"
            if page not in two:
                found.append(f"{page}: not within two clicks")
            elif not Page(site / page).has_example:
                found.append(f"{page}: no example")
    return found


def external(site: Path) -> Counter[str]:
    """Addresses outside the site, and how many pages link there."""
    pages = (Page(path) for path in site.rglob("*.html"))
    return Counter(link for page in pages for link in page.links if "://" in link)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a built site; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path, help="the folder with index.html")
    parser.add_argument("--external", action="store_true", help="list addresses outside the site")
    options = parser.parse_args(arguments)
    site = options.site.resolve()
    if options.external:
        for address, pages in sorted(external(site).items()):
            print(f"{pages:5} {address}")
        return 0
    found = faults(site)
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
