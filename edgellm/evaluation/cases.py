"""The cases of a suite: what a model is asked, and what its reply must be."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from edgellm.text.conversation import Message
from edgellm.tools.tool import Tool

OVERALL = "overall"
"""The score that every case has: from 0 to 1, of the reply that is guided where guides apply."""

UNGUIDED = "_unguided"
"""Ends the name of a score of a reply without a guide."""

SCORES: Mapping[str, tuple[str, ...]] = {
    "calls": ("tool_right", "arguments_right", "calls_valid"),
    "json": ("json_right", "json_valid"),
    "schema": ("json_valid",),
    "contains": (),
    "equals": (),
    "regex": (),
    "copy": ("exact",),
}
"""The kinds of expectations, and the scores that a case of each may have beside `OVERALL`."""

GUIDED = ("calls", "json", "schema")
"""The kinds of which there is a reply with a guide and one without."""


@dataclass(frozen=True)
class Case:
    """A case: the conversation that the model replies to, and what is expected of the reply.

    id            is unique in the suite
    kind          a key of `SCORES`
    expected      what the reply is compared with: the calls, the JSON value, the text, texts or regular expression;
                  None for the kind "schema"
    tools         that the reply may call, by name
    json_schema   that the guided reply is held to, for the kinds "json" and "schema"
    groups        names under which the overall score is also shown
    extra_tokens  that the reply may have beyond the limit, such as those of a text to copy
    """

    id: str
    messages: Sequence[Message]
    kind: str
    expected: Any
    tools: Mapping[str, Tool] = field(default_factory=dict)
    json_schema: Any = None
    groups: tuple[str, ...] = ()
    extra_tokens: int = 0

    @property
    def digest(self) -> str:
        """Tells two cases apart of which anything differs that the reply or the score depends on."""
        tools = [tool.definition for tool in self.tools.values()]
        parts = [list(map(dict, self.messages)), self.kind, self.expected, tools, self.json_schema, self.extra_tokens]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of all scores that the case may have."""
        named = SCORES[self.kind]
        return (OVERALL, *named, *(name + UNGUIDED for name in named if self.kind in GUIDED))


def spread(cases: Sequence[Case], limit: int | None) -> list[Case]:
    """At most `limit` cases, evenly spread over the suite."""
    count = len(cases) if limit is None else min(limit, len(cases))
    return [cases[i * len(cases) // count] for i in range(count)]
