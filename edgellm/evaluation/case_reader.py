"""One case of a suite file, checked."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from edgellm.errors import EdgeLLMError, GuideError, OptionError
from edgellm.evaluation.cases import SCORES, Case
from edgellm.fmt import counted, printable
from edgellm.generate.call_guides import check_tool
from edgellm.guides.compile import check
from edgellm.guides.schema.json_check import conforms
from edgellm.guides.spec import GuideSpec
from edgellm.text.conversation import check_messages
from edgellm.text.json_values import json_value
from edgellm.tools.tool import Tool, tools_of

_KEYS = frozenset(("expect", "group", "id", "json_schema", "messages", "prompt", "system", "tools"))
_KINDS = tuple(kind for kind in SCORES if kind != "schema")
_KIND = f"give one of the keys {', '.join(_KINDS)}"
_CALL = '{"name": …, "arguments": {…}, "allow": {NAME: [VALUE, …]}}'


class Defaults(NamedTuple):
    """What the cases of a suite have in common: a system prompt, and tools that cases name."""

    system: str | None
    tools: Mapping[str, Tool]


def read_case(number: int, entry: Any, defaults: Defaults) -> Case:
    """Case `number` of a suite, from 1 on. Raises OptionError, which names the case and the field."""
    if not isinstance(entry, dict):
        raise OptionError(f"case {number} is no object")
    name = entry.get("id", str(number))
    if not isinstance(name, str) or not name:
        raise OptionError(f"case {number}: id is no text")
    try:
        return _CaseReader(entry, defaults).case(name)
    except EdgeLLMError as error:
        problem = str(error).removeprefix("option ") if isinstance(error, GuideError) else str(error)
        raise OptionError(f"case {printable(name)}: {problem}") from None


class _CaseReader:
    def __init__(self, entry: Mapping[str, Any], defaults: Defaults) -> None:
        if unknown := sorted(entry.keys() - _KEYS):
            _fail(f"{printable(unknown[0])} is no key of a case; the keys are {', '.join(sorted(_KEYS))}")
        self._entry, self._defaults = json_value(entry, "the case"), defaults

    def case(self, name: str) -> Case:
        """The case. Raises EdgeLLMError."""
        entry = self._entry
        kind, expected = self._expectation()
        tools, schema = self._tools(), entry.get("json_schema")
        if (kind == "calls") != bool(tools):
            _fail("tools and the expectation calls belong together")
        if (kind in ("json", "schema")) != ("json_schema" in entry):
            _fail("json_schema and the expectation json belong together")
        if kind == "calls":
            _check_calls(expected, tools)
        elif "json_schema" in entry:
            _check_schema(schema)
        if kind == "json" and not conforms(expected, schema):
            _fail("expect.json is not valid against json_schema")
        if not isinstance(group := entry.get("group"), str | None):
            _fail("group is no text")
        return Case(name, self._messages(), kind, expected, tools, schema, (group,) if group else ())

    def _expectation(self) -> tuple[str, Any]:
        entry = self._entry
        if "expect" not in entry and "json_schema" in entry:
            return "schema", None
        expect = entry.get("expect")
        if not isinstance(expect, dict):
            _fail(f"expect is no object; {_KIND}")
        if unknown := [key for key in expect if key not in _KINDS]:
            _fail(f"expect.{printable(unknown[0])} is no expectation; {_KIND}")
        if len(expect) != 1:
            _fail(f"expect has {counted(len(expect), 'key')}; {_KIND}")
        ((kind, expected),) = expect.items()
        if kind in ("contains", "equals", "regex", "copy"):
            _check_texts(kind, expected)
        return kind, expected

    def _messages(self) -> list[Mapping[str, Any]]:
        entry, system = self._entry, self._entry.get("system", self._defaults.system)
        if ("prompt" in entry) == ("messages" in entry):
            _fail("give either prompt or messages")
        messages = entry.get("messages", [{"role": "user", "content": entry.get("prompt")}])
        if not isinstance(messages, list):
            _fail("messages is no list")
        if system is not None:
            messages = [{"role": "system", "content": system}, *messages]
        check_messages(messages)
        if not messages or messages[-1]["role"] not in ("user", "tool"):
            _fail("the last message is not from user or tool")
        return messages

    def _tools(self) -> dict[str, Tool]:
        if not isinstance(given := self._entry.get("tools", []), list):
            _fail("tools is no list of names and definitions")
        for each in given:
            if isinstance(each, str) and each not in self._defaults.tools:
                _fail(f"tools names {printable(each)}, which the suite does not define")
        return tools_of(self._defaults.tools[each] if isinstance(each, str) else each for each in given)


def _check_calls(expected: Any, tools: Mapping[str, Tool]) -> None:
    for tool in tools.values():
        check_tool(tool)
    if not isinstance(expected, list):
        _fail(f"expect.calls is no list of calls: {_CALL}")
    for call in expected:
        if not isinstance(call, dict) or not call.keys() <= {"name", "arguments", "allow"} or "name" not in call:
            _fail(f"expect.calls has an entry that is no call: {_CALL}")
        if str(call["name"]) not in tools:
            _fail(f"expect.calls names {printable(str(call['name']))}, which is no tool of the case")
        arguments, allowed = call.get("arguments", {}), call.get("allow", {})
        if not (isinstance(arguments, dict) and isinstance(allowed, dict)):
            _fail(f"expect.calls has an entry whose arguments are no object: {_CALL}")
        if not all(isinstance(values, list) for values in allowed.values()):
            _fail("expect.calls.allow has a value that is no list")


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, dict | bool):
        _fail("json_schema is no JSON schema")
    check(GuideSpec("json_schema", json.dumps(schema)))


def _check_texts(kind: str, expected: Any) -> None:
    texts = expected if isinstance(expected, list) and kind != "copy" else [expected]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        _fail(f"expect.{kind} is no text")
    try:
        for text in texts if kind == "regex" else ():
            re.compile(text)
    except re.error as error:
        _fail(f"expect.regex is no regular expression of Python: {error}")


def _fail(problem: str) -> NoReturn:
    raise OptionError(problem)
