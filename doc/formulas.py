"""Formulas as SVG pictures, drawn when the pages are built: no script, no font, no network."""

from html import escape
from typing import Any

import ziamath
from docutils import nodes
from sphinx.application import Sphinx

# Glyphs as paths: shared symbols would have the size of the first formula of a page.
ziamath.config.svg2 = False
ziamath.config.precision = 2
SIZE = 17.0  # pixels; running text has 16


def svg(latex: str, *, inline: bool) -> str:
    formula = ziamath.Latex(latex, size=SIZE, inline=inline, color="currentColor")
    # A baseline below the bottom edge keeps an inline formula on the line of its text.
    attributes = f'role="img" aria-label="{escape(latex)}" '
    if inline:
        attributes += f'style="vertical-align: {formula.getyofst():.2f}px" '
    return formula.svg().replace("<svg ", f"<svg {attributes}", 1)


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(svg(node.astext(), inline=True))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{svg(node.astext(), inline=False)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("svg", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
