"""Notices over all screens of the app."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from textual.app import App
from textual.screen import Screen


class Notices:
    """Shows no notice twice at once, a repeated one anew, and repaints what a notice covered."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._coming: set[str] = set()
        self._shown: WeakKeyDictionary[Screen[Any], int] = WeakKeyDictionary()

    def watch_screens(self) -> None:
        """Repaint on all screens that the app will show."""
        self._app.screen_change_signal.subscribe(self._app, self._watch, immediate=True)

    def show(self, text: str, notify: Callable[[], None]) -> None:
        """Call `notify`, which shows `text`, in place of a notice with that text; it stays for its whole time."""
        if text in self._coming:
            return
        for shown in [notice for notice in self._app._notifications if notice.message == text]:
            self._app._unnotify(shown, refresh=False)
        self._coming.add(text)
        notify()
        self._app.call_later(lambda: self._coming.discard(text))  # by then the app knows the notice

    def _watch(self, screen: Screen[Any]) -> None:
        if screen not in self._shown:
            self._shown[screen] = 0
            screen.screen_layout_refresh_signal.subscribe(self._app, self._repaint_after_removal)

    def _repaint_after_removal(self, screen: Screen[Any]) -> None:
        """Repaint the whole screen after a notice has gone, as Textual (8.2.8) may leave its place as it was.

        Textual finds what has gone by comparing two maps of widgets. If a hidden widget changed before, it makes the
        older map again when the notice is no longer in it.
        """
        shown = sum(len(rack.children) for rack in screen.query_children("ToastRack"))
        if shown < self._shown[screen]:
            screen.refresh()
        self._shown[screen] = shown
