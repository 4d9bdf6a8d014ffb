"""The line of keys at the bottom of the screen."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from textual.binding import Binding
from textual.content import Content
from textual.events import Click
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget


class KeyBar(Widget):
    """Shows the keys that do something now, as many as fit on the line. A click presses a key.

    It takes the place of Textual's Footer, which creates a widget for each key whenever one key changes.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[tuple[str, str, str], ...] = ()

    def on_mount(self) -> None:
        """Subscribe to changes of the active bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._update)

    def on_click(self, event: Click) -> None:
        """Press the key that was clicked."""
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)

    def _update(self, screen: Screen[None]) -> None:
        shown = tuple(self._entries(screen))
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def _entries(self, screen: Screen[None]) -> Iterator[tuple[str, str, str]]:
        shown: dict[str, Binding] = {}
        for active in screen.active_bindings.values():
            if active.binding.show and active.enabled:
                shown.setdefault(active.binding.action, active.binding)  # one key for each action
        for binding in shown.values():
            yield binding.key, self.app.get_key_display(binding), binding.description

    def render(self) -> Content:
        """The line. The keys are two columns apart if all of them fit so, else one."""
        entries = [
            Content.assemble((display, "bold $footer-key-foreground"), f" {description}").stylize(
                Style.from_meta({"key": key})
            )
            for key, display, description in self._shown
        ]
        wide = sum(entry.cell_length + 2 for entry in entries) <= self.size.width
        line, room = Content(), self.size.width
        for entry in entries:
            if entry.cell_length <= room:
                line += entry + Content("  " if wide else " ")
                room -= entry.cell_length + 1
        return line


def key_of(screen: Screen[Any], id: str) -> str:
    """The name of the key of the active binding `id`; empty if no such binding is active."""
    return keys_of(screen, (id,)).get(id, "")


def keys_of(screen: Screen[Any], ids: Collection[str]) -> dict[str, str]:
    """The names of the keys of those bindings that are active, by id. It reads all bindings, which takes long, once."""
    names: dict[str, str] = {}
    for active in screen.active_bindings.values():
        if (id := active.binding.id) and id in ids and id not in names:
            names[id] = screen.app.get_key_display(active.binding)
    return names
