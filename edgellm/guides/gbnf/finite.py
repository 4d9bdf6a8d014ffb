"""Rules without the parts that have no texts, as they contain themselves without an end."""

from edgellm.errors import GuideError
from edgellm.guides.gbnf.parser import ROOT, Rules
from edgellm.guides.patterns.nodes import Alternation, Chars, Concatenation, Name, Node, Repeat


def finite_rules(rules: Rules) -> Rules:
    """The rules that have texts, without alternatives that have none. Raises GuideError if the root has none.

    In a grammar of these every text can be brought to an end.
    """
    finite = set[str]()
    while more := {name for name, body in rules.items() if name not in finite and _part(body, finite) is not None}:
        finite |= more
    if ROOT not in finite:
        raise GuideError(f"option grammar: no text of the rule {ROOT} comes to an end")
    bodies = ((name, _part(rules[name], finite)) for name in rules)
    return {name: body for name, body in bodies if body is not None}


def _part(node: Node, finite: set[str]) -> Node | None:
    """A part of a rule without alternatives that have no texts; None if it has none itself."""
    if isinstance(node, Name):
        return node if node.name in finite else None
    if isinstance(node, Chars):
        return node if node.chars.ranges else None
    if isinstance(node, Repeat):
        item = _part(node.item, finite)
        if item is None:
            return None if node.least else Concatenation(())
        return Repeat(item, node.least, node.most)
    assert isinstance(node, Concatenation | Alternation)
    items = [_part(item, finite) for item in node.items]
    found = tuple(item for item in items if item is not None)
    if isinstance(node, Alternation):
        return Alternation(found) if found else None
    return Concatenation(found) if len(found) == len(items) else None
