"""The tools of a chat: which ones a reply may call, and the results of functions that replies call."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.options import validate
from edgellm.options.checks import boolean
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.call_format import AUTO, NONE
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats import call_format
from edgellm.tools.running import Approve, can_run, run_calls
from edgellm.tools.use import ToolChoice, ToolUse, given_tools, shows_no_calls

Given = Iterable[Any] | None
"""Functions and OpenAI definitions of functions; None for those of the chat."""


class ChatTools:
    """The tools that the replies of a chat may call, where a reply is not given others.

    `source` is the chat template of conversations with tools; `title` are words for it, see `template_title`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        title: str,
        source: str,
        tools: Given,
        choice: ToolChoice | None,
        parallel: bool | None,
    ) -> None:
        """Raises OptionError for values that are not valid, EdgeLLMError for a template that shows no calls."""
        self._tokenizer, self._title, self.source = tokenizer, title, source
        self._tools, self.choice = given_tools(tools, choice)
        self._parallel = True
        self._parallel = self._may_be_parallel(parallel)
        self.of_reply(None, None)

    def of_reply(self, tools: Given, choice: ToolChoice | None, parallel: bool | None = None) -> ToolUse | None:
        """The tools of a reply, None without any; None as an argument stands for that of the chat.

        With `parallel` False the reply has one call at most. Raises OptionError, and EdgeLLMError for a template that
        shows no calls.
        """
        parallel = self._may_be_parallel(parallel)
        found, name = (self._tools, self.choice) if tools is None else given_tools(tools, choice)
        if tools is None and choice is not None:
            found, name = given_tools(found.values(), choice)
        if not found:
            return None
        if (form := call_format(self.source)) is None:
            raise EdgeLLMError(f"{shows_no_calls(self._title)}, or leave the tools out")
        return ToolUse(found, name, form, self._tokenizer.special_ids(form.marks), parallel)

    def _may_be_parallel(self, given: bool | None) -> bool:
        return self._parallel if given is None else validate("parallel_tool_calls", boolean, given)

    def choice_behind_results(self, choice: ToolChoice | None) -> str:
        """The choice of a reply to results, where `choice` was that of the reply with the calls: it need not call."""
        return NONE if (choice or self.choice) == NONE else AUTO

    def run(
        self,
        calls: Sequence[ToolCall],
        tools: Given,
        approve: Approve | None,
        keep: Callable[[dict[str, Any]], None],
    ) -> bool:
        """Run the functions of calls, as `run_calls` does. False, and none is run, if one is missing.

        `tools` are those of the reply.
        """
        use = self.of_reply(tools, None)
        if not use or not can_run(use.tools, calls):
            return False
        run_calls(use.tools, calls, approve, keep)
        return True
