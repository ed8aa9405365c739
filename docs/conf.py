"""How the documentation is built: ``make docs``. Warnings are errors, and no network is needed."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("KERNELWEAVE_DATA", None)  # pages look the same wherever they are built

import kernelweave

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from inventories import mapping

project = "kernelweave"
author = "The kernelweave developers"
copyright = author
version = release = kernelweave.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "plain_docstrings",
    "flowchart",
    "page_links",
]
exclude_patterns = ["_build", "_ext", "_inventories", "**/GALLERY_HEADER.rst", "gallery/*.py"]
templates_path = ["_templates"]

intersphinx_mapping = mapping(HERE / "_build" / "inventories")

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
FOREIGN = (  # what they hand down is told in their own documentation
    "object,Exception,ValueError,tuple,Params,BaseEstimator,ClassifierMixin,RegressorMixin,"
    "MultiOutputMixin,OutlierMixin,TransformerMixin,NormalizedKernelMixin,Kernel,Protocol"
)
autodoc_default_options = {
    "members": True,
    "inherited-members": FOREIGN,
    "exclude-members": "set_fit_request,set_score_request,set_predict_request,"
    "set_decision_function_request,set_transform_request,get_metadata_routing,set_output,"
    "get_params,set_params,score",
}
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # every example runs
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "plot_gallery": True,
    "doc_module": ("kernelweave",),
    "within_subsection_order": "gallery_order.PageOrder",
    "minigallery_sort_order": "gallery_order.place",
    "backreferences_dir": "gallery/used_in",
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "kernelweave"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["llms.txt"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 8,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {page: [] for page in ("index", "tutorial", "choose", "does_mkl_help")}
