"""Calls of tools as the transcript shows them."""

from collections.abc import Sequence

from edgellm.tools.calls import ToolCall
from tui.core.call_results import call_results
from tui.core.call_texts import details, result_summary, summary
from tui.core.tool_runs import ToolRuns
from tui.core.tree import Message

Calls = tuple[tuple[str, str], ...]
"""Summaries and details, as `TranscriptEntry` has them."""


def call_entries(path: Sequence[Message], runs: ToolRuns) -> dict[int, Calls]:
    """The call of each result, and the calls of each reply that have no result, by the ids of the messages."""
    found, texts = call_results(path), {message.id: message.text for message in path}
    shown: dict[int, Calls] = {
        result: ((result_summary(call, texts[result]), details(call)),) for result, call in found.calls.items()
    }
    for reply, calls in found.unanswered.items():
        shown[reply] = tuple((f"calls {summary(call)} · {_state(call, runs)}", details(call)) for call in calls)
    return shown


def _state(call: ToolCall, runs: ToolRuns) -> str:
    """What happens to a call without a result."""
    if runs.current is call:
        return "waits for your answer" if runs.question else "runs"
    return "waits" if runs.is_waiting(call) else "no result"
