"""The replies that `edgellm bench --draft` measures: edited code, JSON that conforms to a schema, and prose.

They are continuations of plain text, so that models without a chat template write them, too.
"""

from dataclasses import dataclass, field
from typing import Any

_SOURCE = '''"""A queue of jobs that keeps the most important ones."""

from heapq import heappop, heappush, heapreplace


class JobQueue:
    """Holds up to `limit` jobs; beyond that, the least important job is dropped."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._jobs: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def is_full(self) -> bool:
        """Whether the next job drops another."""
        return len(self._jobs) >= self.limit

    def add(self, name: str, importance: float) -> None:
        """Add a job."""
        if not self.is_full:
            heappush(self._jobs, (importance, name))
            return
        self.dropped += 1
        if importance > self._jobs[0][0]:
            heapreplace(self._jobs, (importance, name))

    def take_least(self) -> str:
        """Remove the least important job, and return its name."""
        if not self._jobs:
            raise IndexError("the queue is empty")
        return heappop(self._jobs)[1]
'''

_NAME: dict[str, Any] = {"type": "string", "minLength": 3, "maxLength": 40}
_PERSON = {
    "type": "object",
    "properties": {"name": _NAME, "city": _NAME, "born": {"type": "integer"}, "occupation": _NAME},
    "required": ["name", "city", "born", "occupation"],
    "additionalProperties": False,
}
_SCHEMA = {
    "type": "object",
    "properties": {"title": _NAME, "people": {"type": "array", "items": _PERSON, "minItems": 8, "maxItems": 8}},
    "required": ["title", "people"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class DraftReply:
    """A reply to measure: its name in the report, the text to continue, and options of generation."""

    name: str
    prompt: str
    options: dict[str, Any] = field(default_factory=dict)


REPLIES = (
    DraftReply(
        "code",
        f"A Python file:\n\n```python\n{_SOURCE}```\n\nThe same file with `limit` renamed to `capacity`, and nothing "
        'else changed:\n\n```python\n"""A queue of jobs',
    ),
    DraftReply(
        "JSON",
        "The people of a small theatre, as JSON with their names, cities, years of birth and occupations:\n\n",
        {"json_schema": _SCHEMA, "partial": True},
    ),
    DraftReply(
        "prose",
        "The lighthouse keeper's daughter had counted the steps so often that her feet knew them in the dark. That "
        "night, halfway up, she heard",
    ),
)
