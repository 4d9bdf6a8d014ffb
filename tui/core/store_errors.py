"""Failures of the store that must not end the chat."""

from collections.abc import Callable

from edgellm.errors import EdgeLLMError
from tui.core.events import Emit, Notice


def store_or_notify(emit: Emit, write: Callable[[], object]) -> None:
    """Call `write`. If it raises EdgeLLMError, emit a Notice and return: the chat goes on with what is in memory."""
    try:
        write()
    except EdgeLLMError as error:
        emit(Notice(f"not saved: {error}", "error"))
