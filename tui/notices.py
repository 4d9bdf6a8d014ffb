"""Notices: each comes once, is harmless to the terminal, and leaves nothing behind."""

from typing import Any
from weakref import WeakKeyDictionary

from textual.notifications import SeverityLevel
from textual.screen import Screen

from edgellm.terminal.sanitize import sanitize
from tui.exit import ResilientApp


class NoticingApp(ResilientApp):
    """An app with notices on all its screens."""

    def __init__(self) -> None:
        super().__init__()
        self._coming: set[str] = set()
        self._shown: WeakKeyDictionary[Screen[Any], int] = WeakKeyDictionary()

    def on_load(self) -> None:
        """Look after all screens that will come."""
        self.screen_change_signal.subscribe(self, self._look_after, immediate=True)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a notice, unless it is there. Whatever it quotes is text, and harmless to the terminal."""
        text = sanitize(message)
        if text not in self._coming and all(notice.message != text for notice in self._notifications):
            self._coming.add(text)
            super().notify(text, title=title, severity=severity, timeout=timeout, markup=False)
            self.call_later(lambda: self._coming.discard(text))  # by then it is among the others

    def _look_after(self, screen: Screen[Any]) -> None:
        if screen not in self._shown:
            self._shown[screen] = 0
            screen.screen_layout_refresh_signal.subscribe(self, self._repaint_if_one_has_gone)

    def _repaint_if_one_has_gone(self, screen: Screen[Any]) -> None:
        """Paint the whole screen: Textual (8.2.8) may not have painted what was under the notice.

        It finds what has gone by comparing two maps of widgets. When a hidden widget has changed before, it makes the
        older map anew, and only then, when the notice is not in it.
        """
        shown = sum(len(rack.children) for rack in screen.query_children("ToastRack"))
        if shown < self._shown[screen]:
            screen.refresh()
        self._shown[screen] = shown
