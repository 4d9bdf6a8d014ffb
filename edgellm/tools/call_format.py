"""A call format: how the models of a family write calls of tools."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgellm.errors import OptionError
from edgellm.text.conversation import arguments_of
from edgellm.tools.calls import ToolCall
from edgellm.tools.grammar import Grammar
from edgellm.tools.maker import CallMaker
from edgellm.tools.reader import CallReader
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

AUTO, NONE, REQUIRED = "auto", "none", "required"
Parts = list[tuple[str, bool]]
"""Text in the format: texts, and whether each is a mark."""


@dataclass(frozen=True)
class CallFormat:
    """A format.

    name        for people
    marks       the texts of its control tokens
    is_shown    whether a chat template, by its source, shows the format
    read        makes a reader of replies
    rules       writes the rules of calls into a grammar, see `Grammar`
    write       calls as a model writes them
    result_marks          the texts of tokens around results of tools, which no result may forge
    grammar_has_thoughts  whether grammars cover what a model thinks before it answers; others begin behind that
    """

    name: str
    marks: tuple[str, ...]
    is_shown: Callable[[str], bool]
    read: Callable[[Symbols, CallMaker, str], CallReader]
    rules: Callable[[Grammar], None]
    write: Callable[[Sequence[ToolCall]], Parts]
    result_marks: tuple[str, ...] = ()
    grammar_has_thoughts: bool = False

    def write_entries(self, entries: Sequence[Mapping[str, Any]]) -> Parts:
        """The entries of `tool_calls` of a message as a model writes them: for templates that do not show them."""
        calls = (each["function"] | {"id": each.get("id") or "", "arguments": arguments_of(each)} for each in entries)
        return self.write([ToolCall(call["id"], call["name"], call["arguments"] or {}) for call in calls])

    def reader(
        self,
        tools: Mapping[str, Tool],
        tokens: Collection[str] = (),
        begun: str = "",
        first: int = 0,
    ) -> CallReader:
        """A reader of a reply.

        `tokens` are the texts of those marks that the vocabulary has as one token; they come to the reader as `Mark`.
        Other marks are found in the text. `begun` is the text that the reply continues, <think> if its prompt ends with
        that. `first` is how many calls the conversation has so far.
        """
        return self.read(Symbols(self.marks, tokens), CallMaker(tools, first), begun)

    def grammar(
        self,
        tools: Mapping[str, Tool],
        choice: str = AUTO,
        parallel: bool = True,
        tokens: Mapping[str, int] | None = None,
        thoughts: bool = True,
    ) -> str:
        """The grammar of replies, in the Lark of llguidance.

        `choice` is "auto" (text, calls, or text and then calls), "none" (text alone), "required" (calls alone) or the
        name of the tool to call. Without `parallel` there is one call at most. `tokens` are the ids of those marks that
        the vocabulary has as one token. Without `thoughts` a grammar that covers them allows none. Arguments follow the
        schema of their tool; one that forbids no further arguments is taken to allow none. Raises OptionError for an
        unknown choice, and for a schema that the format cannot be held to, with the tool and the place in the schema.
        """
        offered = dict(tools)
        if choice not in (AUTO, NONE, REQUIRED):
            if choice not in tools:
                known = ", ".join((AUTO, NONE, REQUIRED, *tools))
                raise OptionError(f"tool_choice is {choice!r}; take one of: {known}")
            offered = {choice: tools[choice]}
        if not offered and choice == REQUIRED:
            raise OptionError("tool_choice is 'required', but there are no tools; give tools, or take 'auto'")
        must_call, may_call = choice not in (AUTO, NONE), choice != NONE and bool(offered)
        grammar = Grammar(offered, tokens or {}, parallel, must_call, may_call, thoughts)
        try:
            self.rules(grammar)
        except RecursionError:
            raise OptionError("the schemas of the tools refer to each other over too many levels") from None
        return grammar.text()
