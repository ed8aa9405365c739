"""The directive ``flowchart``: a column of questions, each with its answer beside it, as SVG.

    ```{flowchart} Which storage?
    Up to 10,000 rows? | the default
    Few columns in each view? | storage="factors"
    else | approximation=Nystroem(500)
    ```

"Yes" leads to the right, "no" downwards; the last line is where "no" ends. Colors are the theme's,
so that light and dark both work. The chart is an image to screen readers, with the same questions
and answers as its description.
"""

import textwrap
from html import escape

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

WIDTH, GAP, LINE = 172, 40, 19  # of a box, between boxes, of a line of text
LETTERS = 19  # that fit into a box


def box(x, y, height, words, kind):
    """A rectangle with lines of text in its middle."""
    top = y + height / 2 - LINE * (len(words) - 1) / 2 + 5
    text = "".join(
        f'<tspan x="{x + WIDTH / 2}" y="{top + LINE * k}">{escape(word)}</tspan>'
        for k, word in enumerate(words)
    )
    radius = 6 if kind == "question" else 18
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}" height="{height}" rx="{radius}"/>'
        f"<text>{text}</text>"
    )


def arrow(x1, y1, x2, y2, word):
    """A line with a head and a word beside it."""
    across = y1 == y2
    head = (
        f"M{x2 - 7} {y2 - 4}L{x2} {y2}L{x2 - 7} {y2 + 4}"
        if across
        else f"M{x2 - 4} {y2 - 7}L{x2} {y2}L{x2 + 4} {y2 - 7}"
    )
    x, y = ((x1 + x2) / 2 - 3, y1 - 6) if across else (x1 + 16, (y1 + y2) / 2 + 4)
    return (
        f'<path class="arrow" d="M{x1} {y1}L{x2} {y2}{head}"/>'
        f'<text class="word" x="{x}" y="{y}">{word}</text>'
    )


def draw(title, rows):
    """The chart of ``(question, answer)`` pairs; the last has no question."""
    parts, y = [], 2
    for question, answer in rows:
        asked, told = (textwrap.wrap(text, LETTERS) for text in (question, answer))
        height = 20 + LINE * max(len(asked), len(told))
        middle = y + height / 2
        if question:
            parts += [
                box(2, y, height, asked, "question"),
                box(2 + WIDTH + GAP, y, height, told, "answer"),
                arrow(2 + WIDTH, middle, 2 + WIDTH + GAP, middle, "yes"),
                arrow(2 + WIDTH / 2, y + height, 2 + WIDTH / 2, y + height + 30, "no"),
            ]
        else:
            parts.append(box(2, y, height, told, "answer"))
        y += height + 30
    width, height = 2 * WIDTH + GAP + 4, y - 28
    told = "; ".join(f"{q} {a}" if q else f"otherwise {a}" for q, a in rows)
    return (
        f'<svg class="flowchart" role="img" viewBox="0 0 {width} {height}" '
        f'aria-label="{escape(f"{title} {told}.", quote=True)}">{"".join(parts)}</svg>'
    )


class FlowChart(SphinxDirective):
    """The chart of the lines ``question | answer`` under the directive's title."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        """One raw node of HTML."""
        rows = [tuple(part.strip() for part in line.split("|")) for line in self.content if line]
        rows = [("" if question == "else" else question, answer) for question, answer in rows]
        return [nodes.raw("", draw(self.arguments[0], rows), format="html")]


def setup(app):
    """Register with Sphinx."""
    app.add_directive("flowchart", FlowChart)
    return {"parallel_read_safe": True}
