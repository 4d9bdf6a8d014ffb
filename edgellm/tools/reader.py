"""Reads the calls in a reply as it comes: text as soon as it is certain, each call at its end."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from edgellm.text.thought import CLOSING
from edgellm.tools.calls import BrokenCall, Event, ToolCall
from edgellm.tools.source import MalformedError, Reading, ReplySource, first_of, held_back
from edgellm.tools.symbols import Mark, Symbols

THINK, END_OF_THINK = "<think>", "</think>"
_SPACE = re.compile(r"[ \t\r\n]*")
_SPACES = " \t\r\n"


Emit = Callable[[ToolCall], None]
"""Takes a call that is complete."""


class NotACallError(Exception):
    """What began like a call is text: `text`, or if that is None all that was read of it."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__(text)
        self.text = text


class CallReader(Protocol):
    """Reads a reply. The text and the calls are the same however the reply is cut into pieces."""

    def push(self, piece: str | Mark) -> list[Event]:
        """Read a piece of the reply. Returns what became certain, in order: text, calls, calls that do not parse."""

    def flush(self) -> list[Event]:
        """The rest of the reply, as no more comes. A call that is cut off does not parse."""

    @property
    def in_call(self) -> bool:
        """Whether a call has begun and not ended."""

    @property
    def ended(self) -> bool:
        """Whether the reply has its answer, and ends without a token for it."""


@dataclass(frozen=True)
class Frame:
    """How calls stand in a reply. Marks are as `Symbols` has them.

    openers     begin calls anywhere in the text
    leads       begin calls only where the reply has said nothing yet, such as the brace of a call in bare JSON
    ends        what a call that does not parse reaches to; an end that is no opener belongs to it
    body        reads the calls behind an opener or lead, its second argument, and hands each to its third one. Raises
                MalformedError, NotACallError
    """

    openers: Sequence[str]
    ends: Sequence[str]
    body: Callable[[ReplySource, str, Emit], Reading[None]]
    leads: Sequence[str] = ()


class FrameReader:
    """A `CallReader` of calls that stand between marks.

    White space between text and a call, and between calls, is left out. In <think> … </think> openers that are text are
    not looked for. One that is a token ends the thought: models forget to.
    """

    ended = False
    """A reply ends with a token of its own."""

    def __init__(self, frame: Frame, symbols: Symbols, begun: str = "") -> None:
        """`begun` is the text of the reply so far: <think> if it begins inside of a thought."""
        self._frame, self._symbols, self._source = frame, symbols, ReplySource()
        self._tokens = [opener for opener in frame.openers if symbols.written(opener) != opener]
        self._found = list[Event]()
        self._body: Reading[None] | None = None
        self._problem = ""  # of a call that does not parse, while its end is looked for
        self._thinking, self._may_think = False, True
        self._at_start = True  # whether nothing was said since the reply, its answer or the last call began
        self._gap, self._behind_call = "", False
        self._emitted = False  # whether the opener that was read last has a call behind it
        self._source.feed(symbols.piece(begun))
        self._source.ended = True
        self._events()  # for what they leave behind: the caller has the text
        self._source.ended, self._gap = False, ""

    @property
    def in_call(self) -> bool:
        """See `CallReader`."""
        return self._body is not None

    def push(self, piece: str | Mark) -> list[Event]:
        """See `CallReader`."""
        self._source.feed(self._symbols.piece(piece))
        return self._events()

    def flush(self) -> list[Event]:
        """See `CallReader`."""
        self._source.ended = True
        found = self._events()
        return found if self._behind_call else joined([*found, self._gap])

    def _events(self) -> list[Event]:
        while self._step():
            pass
        found, self._found = joined(self._found), []
        return found

    def _step(self) -> bool:
        """Go on to the next state. Returns whether to go on from there."""
        if self._problem:
            return self._find_end()
        if self._body:
            return self._read_call(self._body)
        return self._read_start() if self._at_start else self._read_text()

    def _read_call(self, body: Reading[None]) -> bool:
        try:
            next(body)
            return False
        except MalformedError as error:
            self._problem = str(error)
            return True
        except NotACallError as error:
            self._body, self._at_start = None, False
            self._say(self._source.read() if error.text is None else error.text)
        except StopIteration:
            if not self._emitted:
                self._emit(BrokenCall(self._symbols.written(self._source.read()), "there is no call in it"))
            self._body, self._at_start = None, True
        self._source.begin()
        return True

    def _emit(self, event: ToolCall | BrokenCall) -> None:
        self._found.append(event)
        self._gap, self._behind_call, self._emitted = "", True, True
        self._source.begin()

    def _find_end(self) -> bool:
        """Read to the end of a call that does not parse."""
        ends = self._frame.ends
        at, end = first_of(self._source.rest(), ends)
        if not end and not self._source.ended:
            self._source.skip(len(self._source.rest()) - held_back(self._source.rest(), ends))
            return False
        self._source.skip(at if end in self._frame.openers else at + len(end))
        text = self._symbols.written(self._source.read())
        if text.strip() or not self._emitted:  # the end of a list of calls may be missing
            self._emit(BrokenCall(text, self._problem))
        self._problem, self._body, self._at_start = "", None, True
        return True

    def _read_start(self) -> bool:
        """Read white space, then find out whether the reply begins with a thought or a lead."""
        self._say(self._source.matched(_SPACE))
        rest = self._source.rest()
        starts = [*self._frame.leads, *([THINK] if self._may_think else [])]
        start = next((start for start in starts if rest.startswith(start)), "")
        if not rest or (not start and not self._source.ended and any(each.startswith(rest) for each in starts)):
            return False
        self._at_start = self._may_think = False
        if start == THINK:
            self._thinking = True
        elif start:
            self._begin_call(start)
        return True

    def _read_text(self) -> bool:
        looked_for = [*self._tokens, END_OF_THINK] if self._thinking else self._frame.openers
        at, mark = first_of(self._source.rest(), looked_for)
        if not mark:
            held = 0 if self._source.ended else held_back(self._source.rest(), looked_for)
            self._say(self._source.skip(len(self._source.rest()) - held))
            return False
        self._say(self._source.skip(at))
        if mark == END_OF_THINK:
            self._say(self._source.skip(len(mark)))
            self._thinking, self._at_start = False, True
            return True
        if self._thinking:
            self._gap, self._thinking = "", False
            self._found.append(CLOSING)
        self._begin_call(mark)
        return True

    def _begin_call(self, opener: str) -> None:
        self._source.begin()
        self._source.skip(len(opener))
        self._emitted = False
        self._body = self._frame.body(self._source, opener, self._emit)

    def _say(self, text: str) -> None:
        """Text of the reply. White space at its end waits for what follows."""
        text = self._gap + self._symbols.written(text)
        said = text.rstrip(_SPACES)
        self._gap = text[len(said) :]
        if said:
            self._found.append(said)
            self._behind_call = False


def joined(found: Sequence[Event]) -> list[Event]:
    """Events without empty text, and without two texts in a row."""
    made = list[Event]()
    for event in found:
        if isinstance(event, str) and made and isinstance(made[-1], str):
            made[-1] += event
        elif event != "":
            made.append(event)
    return made
