"""Links of pages that are read on the site and in the repository.

In the repository, ``../examples/views.py`` is a file; on the site it is the page that the gallery
makes of it. Citations such as ``[gai2010, eq. 9]`` lead to the page of references.
"""

import re

EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(\w+)\.py\)")
CITED = re.compile(r"(?<![\w*`\[(])\[([a-z]+\d{4}(?:, [^\]]*)?)\](?![(`*])")


def read(app, page, source):
    """Rewrite the links of one page before it is parsed."""
    source[0] = EXAMPLE.sub(r"](/gallery/\1.rst)", source[0])
    if page.startswith(("guides/", "learners/")):
        source[0] = CITED.sub(r"[[\1]](/references.md)", source[0])


def setup(app):
    """Register with Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
