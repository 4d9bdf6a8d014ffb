"""Calls as gpt-oss writes them: messages to a tool, in the harmony format. (https://cookbook.openai.com/articles/openai-harmony)

    <|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary to=functions.weather
    <|constrain|>json<|message|>{"city": "Rome"}<|call|>

Where a message ends is a token, which no text of arguments is.
"""

from collections.abc import Sequence

from edgellm.text import harmony
from edgellm.tools.call_format import CallFormat, Parts
from edgellm.tools.calls import BrokenCall, Event, ToolCall
from edgellm.tools.formats.json_calls import to_json
from edgellm.tools.grammar import Grammar, literal
from edgellm.tools.maker import CallMaker, parsed
from edgellm.tools.reader import joined
from edgellm.tools.source import CUT_OFF, INCOMPLETE, MalformedError, first_of, held_back
from edgellm.tools.symbols import Mark, Symbols
from edgellm.tools.tool import Tool

_NAMESPACE = "functions."
_ENDS = (harmony.END, harmony.CALL, harmony.RETURN)


def _is_shown(source: str) -> bool:
    return harmony.is_harmony(source)


class HarmonyCallReader:
    """A `CallReader` of replies in the format. The text is that of `edgellm.text.harmony.HarmonyReader`."""

    def __init__(self, symbols: Symbols, maker: CallMaker, begun: str = "") -> None:
        """`begun` is the text of the reply so far."""
        self._symbols, self._maker = symbols, maker
        self._messages = harmony.HarmonyReader({}, begun, leaves_calls=True)
        self._marks = {symbols[mark]: mark for mark in harmony.MARKS}
        self._rest = ""  # text that may begin a mark which is no token
        self._written, self._body = list[str](), list[str]()  # of the current message: all of it, and its text

    @property
    def in_call(self) -> bool:
        """See `CallReader`."""
        return self._messages.recipient is not None

    @property
    def ended(self) -> bool:
        """See `CallReader`."""
        return self._messages.ended

    def push(self, piece: str | Mark) -> list[Event]:
        """See `CallReader`."""
        found, marks = list[Event](), list(self._marks)
        self._rest += self._symbols.piece(piece)
        while mark := first_of(self._rest, marks)[1]:
            text, _, self._rest = self._rest.partition(mark)
            found += [self._text(text), *self._mark(self._marks[mark])]
        held = held_back(self._rest, marks)
        text, self._rest = self._rest[: len(self._rest) - held], self._rest[len(self._rest) - held :]
        return joined([*found, self._text(text)])

    def flush(self) -> list[Event]:
        """See `CallReader`. A call that lacks only its end is one."""
        said = self._text(self._rest)
        self._rest = ""
        if not self.in_call:
            return joined([said, self._messages.flush()])
        call = self._call(at_end=True)
        return joined([said, self._messages.mark(harmony.CALL), call])

    def _text(self, text: str) -> str:
        self._written.append(text)
        if self.in_call:
            self._body.append(text)
        return self._messages.text(text)

    def _mark(self, mark: str) -> list[Event]:
        if mark in _ENDS:
            self._written.append(mark)
        call = [self._call()] if self.in_call and mark != harmony.MESSAGE else []
        if mark in (harmony.START, *_ENDS):
            self._written = []
        if mark not in _ENDS:
            self._written.append(mark)
        return [self._messages.mark(mark), *call]

    def _call(self, at_end: bool = False) -> ToolCall | BrokenCall:
        """The call of the message that ends; `at_end`: because the reply does."""
        body, self._body = "".join(self._body).strip(), []
        try:
            if at_end and not body:
                raise MalformedError(INCOMPLETE)
            name = (self._messages.recipient or "").removeprefix(_NAMESPACE)
            self._maker.check_name(name)
            return self._maker.call(name, parsed(body) if body else {})
        except MalformedError as error:
            problem = CUT_OFF if at_end and str(error) == INCOMPLETE else str(error)
            return BrokenCall("".join(self._written), problem)


def _rules(grammar: Grammar) -> None:
    """Whole replies, with what the model thinks. <|call|> ends a reply, so the end of the arguments is one, too."""
    channel, constrain, message = map(grammar.mark, (harmony.CHANNEL, harmony.CONSTRAIN, harmony.MESSAGE))
    end = grammar.up_to("text_to_end", harmony.END)
    begin = f'{grammar.mark(harmony.START)} "assistant"'

    def call(tool: Tool) -> str:
        to = literal(f"commentary to={_NAMESPACE}{tool.name} ")
        return f'{channel} {to} {constrain} "json" {message} {grammar.arguments(tool)} {grammar.mark(harmony.CALL)}?'

    before = '("analysis" | "commentary")' if grammar.may_think else '"commentary"'
    grammar.add("before", f"{channel} {before} {message} {end} {begin}")
    final = f'{channel} "final" {message} {grammar.any_text()}'
    ways = ["" if grammar.must_call else final, grammar.of_each_tool(call) if grammar.may_call else ""]
    grammar.add("start", f"before* ({' | '.join(filter(None, ways))})")


def _write(calls: Sequence[ToolCall]) -> Parts:
    parts: Parts = []
    for call in calls:
        parts += [(harmony.START, True), ("assistant", False)] if parts else []
        parts += [(harmony.CHANNEL, True), (f"commentary to={_NAMESPACE}{call.name} ", False)]
        parts += [(harmony.CONSTRAIN, True), ("json", False), (harmony.MESSAGE, True)]
        parts += [(to_json(dict(call.arguments)), False), (harmony.CALL, True)]
    return parts


HARMONY_CALLS = CallFormat(
    "harmony", harmony.MARKS, _is_shown, HarmonyCallReader, _rules, _write, grammar_has_thoughts=True
)
