r"""Docstrings are plain text with formulas: an indented formula stays as it is typed.

Two things differ from reStructuredText. A paragraph that is indented, such as the optimization
problem that a docstring opens with, is a literal block without ``::``. Outside of ``literals``,
``|``, ``*`` and a final ``_`` (``weights_``, ``|y|``) mean themselves.
"""

import re

LITERAL = re.compile(r"(``.+?``|:\w+:`.+?`)")
SPECIAL = re.compile(r"[|*]|(?<=[^\W_])_+(?!\w)")
RULE = re.compile(r"-{3,}\s*$")
NAMES = ("Parameters", "Attributes")  # sections whose lines begin with names: numpydoc escapes them


def escape(text):
    """The text with marks that mean themselves, literals left alone."""
    parts = LITERAL.split(text)
    parts[::2] = [SPECIAL.sub(backslashed, part) for part in parts[::2]]
    return "".join(parts)


def backslashed(match):
    """Each mark of a match behind a backslash."""
    return "".join("\\" + mark for mark in match[0])


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


def field(line):
    """A line ``names : type``, its type escaped."""
    names, colon, kind = line.partition(" : ")
    return names + colon + escape(kind)


def process(app, what, name, obj, options, lines):
    """Escape one docstring; runs before numpydoc sees it."""
    rules = [number for number, line in enumerate(lines) if RULE.match(line)]
    start = rules[0] - 1 if rules else len(lines)
    out, section = formulas(lines[:start]), ""
    for number, line in enumerate(lines[start:], start):
        if number + 1 in rules:
            section = line.strip()
        if number in rules or section == "Examples":
            out.append(line)
        elif section in NAMES and not line.startswith(" "):
            out.append(field(line))
        else:
            out.append(escape(line))
    lines[:] = out


def setup(app):
    """Register with Sphinx, ahead of numpydoc."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True}
