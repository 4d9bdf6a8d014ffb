"""Notices over the conversation."""

from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from edgellm.errors import EdgeLLMError


class Notifier:
    """Shows notices on a screen, the errors of actions among them."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._screen = screen

    def say(self, text: str, severity: str = "information") -> None:
        """Show a notice."""
        self._screen.notify(text, severity=severity)  # type: ignore[arg-type]

    def attempt(self, action: Callable[[], object]) -> bool:
        """Call `action`. If it raises EdgeLLMError, show the error and return False."""
        try:
            action()
        except EdgeLLMError as error:
            self.say(str(error), "error")
            return False
        return True
