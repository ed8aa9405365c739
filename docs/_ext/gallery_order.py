"""Examples in the order of the page ``examples.md``, in its sections and in the sidebar."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "examples.md"


def place(path):
    """Where the page names an example; as a key to sort by."""
    order = re.findall(r"\.\./examples/(\w+)\.py", PAGE.read_text(encoding="utf-8"))
    return order.index(Path(path).stem)


class PageOrder:
    """The key that sphinx-gallery makes for each folder of examples."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        """The place of the example."""
        return place(filename)

    def __repr__(self):
        return f"<{type(self).__name__}>"
