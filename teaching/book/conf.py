"""Sphinx's settings for the book. make.py gathers the pages and calls Sphinx."""

import importlib.util
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for links.py

project = "Transformer Lab"
version = release = version_of("transformer-lab")
copyright = "the authors of Transformer Lab; text and figures CC BY 4.0, code MIT"
language = "en"
exclude_patterns = ["benchmarks", "stored"]  # copies of what pages link to
templates_path = [str(HERE / "templates")]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "links",
]

# ---- Lessons: as they are stored, never run here

nb_execution_mode = "off"
nb_ipywidgets_js = {}  # MyST-NB would fetch these from other hosts; the outputs hold no widgets
nb_number_source_lines = False
nb_code_prompt_show, nb_code_prompt_hide = "Show the code", "Hide the code"
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_heading_slug_func = "links.anchor_of"
suppress_warnings = ["myst.header"]  # a lesson may step from ## to ####
copybutton_selector = "div.cell_input pre, div.highlight-default pre, div.highlight-bash pre"

# ---- The package: from its docstrings, whose single backticks are code

default_role = "code"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
add_module_names = False
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

# ---- How it looks; all that a page needs comes from the same folder

html_theme = "pydata_sphinx_theme"
html_title = "Transformer Lab"
mathjax = importlib.util.find_spec("sphinx-mathjax-offline").submodule_search_locations[0]
html_static_path = [str(HERE / "static"), f"{mathjax}/static/mathjax/tex-svg.js"]
mathjax_path = "tex-svg.js"  # the one file that has its font in it
mathjax3_config = {"options": {"enableMenu": False}}  # the menu would make each formula a tab stop
html_favicon = str(HERE / "static" / "favicon.svg")
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_use_index = False  # the search and the package's pages do more
html_domain_indices = False
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "collapse_navigation": True,  # exercises are listed under the lesson that is open
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {
    **{name: ["lessons"] for name in ("index", "glossary", "search")},
    **{f"{folder}/**": ["sidebar-nav-bs", "lessons"] for folder in ("api", "teaching")},
}
