"""What docstrings say of a function and its parameters: Google, NumPy and Sphinx style, or plain text."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_GOOGLE = re.compile(
    r"^[ \t]*(?P<section>Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?|Attributes):[ \t]*$", re.M
)
_NUMPY = re.compile(
    r"^(?P<section>(?:Other )?Parameters|Returns|Yields|Raises|Examples?|Notes?|See Also|References)[ \t]*\n"
    r"-{3,}[ \t]*$",
    re.M,
)
_SPHINX = re.compile(r"^[ \t]*:(?P<section>[a-z]+)(?:[ \t]+(?:[^:\n]*[ \t])?\*{0,2}(?P<name>\w+))?:", re.M)
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)[ \t]*(?:\([^\n]*?\))?:[ \t]*(?P<rest>.*)")
_NUMPY_ENTRY = re.compile(r"(?P<name>\*{0,2}\w+(?:[ \t]*,[ \t]*\*{0,2}\w+)*)[ \t]*(?::.*)?()$")
_PARAMETERS = ("Args", "Arguments", "Parameters", "Other Parameters")


@dataclass(frozen=True)
class FunctionDoc:
    """The description of a function, those of its parameters by name, and that of its result; "" for none."""

    text: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    result: str = ""


def describe_function(function: Callable[..., Any]) -> FunctionDoc:
    """What the docstring of a function says."""
    doc = (inspect.getdoc(function) or "").strip()
    if _NUMPY.search(doc):
        return _sectioned(doc, _NUMPY, _NUMPY_ENTRY)
    if _GOOGLE.search(doc):
        return _sectioned(doc, _GOOGLE, _GOOGLE_ENTRY)
    return _with_fields(doc) if _SPHINX.search(doc) else FunctionDoc(doc)


def _sectioned(doc: str, heading: re.Pattern[str], entry: re.Pattern[str]) -> FunctionDoc:
    found = list(heading.finditer(doc))
    ends = [*(each.start() for each in found[1:]), len(doc)]
    parameters, result = dict[str, str](), ""
    for each, end in zip(found, ends, strict=True):
        body = doc[each.end() : end].strip("\n")
        if each["section"] in _PARAMETERS:
            parameters |= _entries(body, entry)
        elif each["section"] == "Returns":
            result = body.strip()
    return FunctionDoc(doc[: found[0].start()].strip(), parameters, result)


def _entries(body: str, entry: re.Pattern[str]) -> dict[str, str]:
    """The descriptions in a section: an entry begins in the column of the first one, its other lines are indented."""
    lines = [line for line in body.splitlines() if line.strip()]
    indent = _indent(lines[0]) if lines else 0
    found, names = dict[str, list[str]](), list[str]()
    for line in lines:
        begun = entry.fullmatch(line.strip()) if _indent(line) <= indent else None
        if begun:
            names = [name.strip(" \t*") for name in begun["name"].split(",")]
            found |= {name: [begun[2]] for name in names}
        else:
            for name in names:
                found[name].append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def _with_fields(doc: str) -> FunctionDoc:
    found = list(_SPHINX.finditer(doc))
    ends = [*(each.start() for each in found[1:]), len(doc)]
    texts = [" ".join(doc[each.end() : end].split()) for each, end in zip(found, ends, strict=True)]
    parameters, result = dict[str, str](), ""
    for each, text in zip(found, texts, strict=True):
        if each["section"] in ("param", "parameter", "arg", "argument") and each["name"]:
            parameters[each["name"]] = text
        elif each["section"] in ("return", "returns"):
            result = text
    return FunctionDoc(doc[: found[0].start()].strip(), parameters, result)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
