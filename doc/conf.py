"""Configuration of the documentation: `python -m sphinx doc doc/_build/html`."""

import skgp

project = "skgp"
author = "the skgp developers"
copyright = "2026, the skgp developers"
version = release = skgp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
root_doc = "index"
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "skgp"
html_show_sourcelink = False
html_theme_options = {"show_toc_level": 2}

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings state the types
numpydoc_show_class_members = False  # the template of the class pages lists them

myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"/_",  # helpers
    "download_all_examples": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
}
