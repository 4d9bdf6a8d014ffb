"""Suites in files: JSON, or a case of JSON in each line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from edgellm.errors import OptionError
from edgellm.evaluation.case_reader import Defaults, read_case
from edgellm.evaluation.cases import Case
from edgellm.fmt import printable, shown_path
from edgellm.tools.tool import tools_of

TOOLS_SUITE = Path(__file__).with_name("tools.json")
"""The suite of tools and JSON schemas."""

_SHAPE = 'give {"cases": [...]}, or a case in each line'
_KEYS = frozenset(("cases", "description", "system", "tools"))


def read_suite(text: str, name: str) -> list[Case]:
    """The cases of a suite; `name` is that of its file. Raises OptionError, which names the case and the field."""
    try:
        return _cases(_document(text))
    except OptionError as error:
        raise OptionError(f"{shown_path(name)}: {error}") from None


def _document(text: str) -> Mapping[str, Any]:
    """The suite; lines with a case each become one."""
    # JSON strings may contain the other separators of `splitlines`.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and _is_json(lines[0][1]):
        return {"cases": [_entry(number, line) for number, line in lines]}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"it is not JSON: {printable(str(error), 200)}; {_SHAPE}") from None
    if isinstance(found, dict):
        return found if "cases" in found else {"cases": [found]}
    return {"cases": found}


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _entry(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"line {number} is not JSON: {printable(str(error), 200)}; {_SHAPE}") from None


def _cases(document: Mapping[str, Any]) -> list[Case]:
    if unknown := sorted(document.keys() - _KEYS):
        _fail(f"{printable(unknown[0])} is no key of a suite; the keys are {', '.join(sorted(_KEYS))}")
    entries, system = document["cases"], document.get("system")
    if not isinstance(entries, list) or not entries:
        _fail(f"it has no list of cases; {_SHAPE}")
    if not isinstance(system, str | None):
        _fail("system is no text")
    if not isinstance(definitions := document.get("tools", []), list):
        _fail("tools is no list of definitions")
    cases = [
        read_case(number, entry, Defaults(system, tools_of(definitions))) for number, entry in enumerate(entries, 1)
    ]
    ids = set[str]()
    for case in cases:
        if case.id in ids:
            _fail(f"two cases have the id {printable(case.id)}; give each an id of its own")
        ids.add(case.id)
    return cases


def _fail(problem: str) -> NoReturn:
    raise OptionError(problem)
