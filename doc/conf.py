"""Configuration of the documentation: `python -m sphinx doc doc/_build/html`."""

import sys
from pathlib import Path

import skgp

sys.path.insert(0, str(Path(__file__).parent))  # for gallery_order and formulas

project = "skgp"
author = "the skgp developers"
copyright = "2026, the skgp developers"
version = release = skgp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "formulas",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
root_doc = "index"
default_role = "code"

html_math_renderer = "svg"
html_theme = "pydata_sphinx_theme"
html_title = "skgp"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["skgp.css"]
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
# The API page has its groups at the right; a list of all names at the left would mix them.
html_sidebars = {page: [] for page in ("index", "api", "generated/*", "faq", "benchmarks")}

templates_path = ["_templates"]
autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings state the types
autodoc_mock_imports = ["botorch"]  # for skgp.botorch
numpydoc_show_class_members = False  # the template of the class pages lists them

myst_heading_anchors = 3

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Doctests are drawn as they stand: the code of a page makes its pictures.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"/_",  # helpers
    "within_subsection_order": "gallery_order.place",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skgp",),
    "download_all_examples": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "capture_repr": (),  # what a cell prints is enough
}
