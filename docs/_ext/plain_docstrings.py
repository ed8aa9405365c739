r"""Docstrings are plain text with formulas: an indented formula stays as it is typed.

Two things differ from reStructuredText. A paragraph that is indented, such as the optimization
problem that a docstring opens with, is a literal block without ``::``. Outside of ``literals``,
``|``, ``*`` and a final ``_`` (``weights_``, ``|y|``) mean themselves.
"""

import re

LITERAL = re.compile(r"(``.+?``|:\w+:`.+?`)")
SPECIAL = re.compile(r"([|*])|(?<=\w)_(?!\w)")
RULE = re.compile(r"-{3,}\s*$")


def escape(line):
    """The line with marks that mean themselves, literals left alone."""
    parts = LITERAL.split(line)
    parts[::2] = [SPECIAL.sub(lambda mark: "\\" + mark[0], part) for part in parts[::2]]
    return "".join(parts)


def formulas(lines):
    """Lines of the text before the first section, its indented paragraphs made literal."""
    out, inside = [], False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        if indented and not inside and number and not lines[number - 1].strip():
            out += ["::", ""]
            inside = True
        elif line.strip() and not indented:
            inside = False
        out.append(line if inside else escape(line))
    return out


def names_parameter(line, section):
    """Whether napoleon reads the line as names, which it escapes by itself."""
    return section in ("Parameters", "Attributes") and not line.startswith(" ")


def process(app, what, name, obj, options, lines):
    """Escape one docstring; runs before napoleon sees it."""
    rules = [number for number, line in enumerate(lines) if RULE.match(line)]
    start = rules[0] - 1 if rules else len(lines)
    out, section = formulas(lines[:start]), ""
    for number, line in enumerate(lines[start:], start):
        if number + 1 in rules:
            section = line.strip()
        plain = line.lstrip().startswith((">>>", "...")) or section == "Examples"
        keep = plain or number in rules or names_parameter(line, section)
        out.append(line if keep else escape(line))
    lines[:] = out


def setup(app):
    """Register with Sphinx, ahead of napoleon."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True}
