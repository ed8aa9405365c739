"""Links of pages into the repository: to examples as pages of the gallery.

Pages are read on the site and in the repository. There, ``../examples/views.py`` is a file; here it
is the page that the gallery makes of it.
"""

import re

EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(\w+)\.py\)")


def read(app, page, source):
    """Rewrite the links of one page before it is parsed."""
    source[0] = EXAMPLE.sub(r"](/gallery/\1.rst)", source[0])


def setup(app):
    """Register with Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
