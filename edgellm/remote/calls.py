"""Calls of tools, which come in pieces: the name with the first, the arguments as JSON text in any number of pieces."""

from dataclasses import dataclass, field

from edgellm.fmt import printable
from edgellm.guides.schema.json_equality import json_of
from edgellm.remote.failures import ServerError
from edgellm.remote.parts import CallPiece
from edgellm.text.json_values import json_value
from edgellm.tools.calls import BrokenCall, ToolCall, call_id

MAX_CALLS = 128
MAX_CHARACTERS = 4 << 20
"""The most of all names and arguments of a reply."""

_PIECE_CHARACTERS = 64
"""What a piece takes beside its text, so that pieces without text are limited, too."""


@dataclass
class _Growing:
    """A call so far."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class CallAssembler:
    """Puts calls together. `first` is the number of calls in the conversation before.

    Calls get ids of edgellm: those of a server may be missing or the same for two calls, and the next request has both
    the calls and their results anyway.
    """

    def __init__(self, host: str, first: int) -> None:
        self._host, self._first = host, first
        self._growing: dict[int, _Growing] = {}
        self._length = 0

    def __bool__(self) -> bool:
        return bool(self._growing)

    def add(self, piece: CallPiece) -> None:
        """Add a piece. Raises ServerError for more than MAX_CALLS calls, or MAX_CHARACTERS of them."""
        self._length += len(piece.id) + len(piece.name) + len(piece.arguments) + _PIECE_CHARACTERS
        if self._length > MAX_CHARACTERS:
            raise ServerError(f"{self._host} sends longer calls of tools than any reply has; the reply ends here")
        call = self._call_of(piece)
        call.name += "" if piece.name == call.name else piece.name  # some servers repeat it with each piece
        call.arguments.append(piece.arguments)

    def _call_of(self, piece: CallPiece) -> _Growing:
        """The call that a piece belongs to: of its index, else the last one unless it has another id or name."""
        last = max(self._growing, default=-1)
        index = piece.index
        if index is None:
            goes_on = last >= 0 and not piece.name and piece.id in ("", self._growing[last].id)
            index = last if goes_on else last + 1
        elif index in self._growing and piece.name and piece.id not in ("", self._growing[index].id):
            index = last + 1  # several whole calls with one index
        if index not in self._growing and len(self._growing) >= MAX_CALLS:
            raise ServerError(f"{self._host} sends more than {MAX_CALLS} calls of tools; the reply ends here")
        return self._growing.setdefault(index, _Growing(piece.id))

    def calls(self) -> tuple[tuple[ToolCall, ...], tuple[BrokenCall, ...]]:
        """The calls that parse, and those that do not."""
        made: list[ToolCall] = []
        broken: list[BrokenCall] = []
        for call in self._growing.values():
            found = _parsed(call, call_id(self._first + len(made)))
            (made if isinstance(found, ToolCall) else broken).append(found)  # type: ignore[arg-type]
        return tuple(made), tuple(broken)


def _parsed(call: _Growing, id: str) -> ToolCall | BrokenCall:
    text = "".join(call.arguments)
    try:
        arguments = json_value(json_of(text or "{}"), "arguments")
    except ValueError as error:
        return BrokenCall(f"{call.name}({text})", f"the arguments are not JSON: {printable(str(error), 100)}")
    if not call.name or not isinstance(arguments, dict):
        problem = "the arguments are no object" if call.name else "it names no tool"
        return BrokenCall(f"{call.name}({text})", problem)
    return ToolCall(id, call.name, arguments)
