"""Where estimators are documented: the link that notebooks show beside an estimator."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

_PACKAGE = __name__.partition(".")[0]


class Documented:
    """An estimator that links to its page on the project's site."""

    def _get_doc_link(self) -> str:
        """The page of the class; empty for classes of others, and where no site is known."""
        kind, site = type(self), _site()
        if not site or kind.__module__.partition(".")[0] != _PACKAGE:
            return ""
        return f"{site}/api/{_PACKAGE}.{kind.__name__}.html"


@cache
def _site() -> str:
    """The address of the documentation as the installed package names it, under Project-URL."""
    try:
        named = metadata(_PACKAGE).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    urls = dict(entry.split(", ", 1) for entry in named if ", " in entry)
    return urls.get("Documentation", "").rstrip("/")
