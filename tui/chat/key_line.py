"""The keys that do something now, on one line.

It stands in for Textual's Footer, which is a widget for each key, made anew whenever the focus moves: those were a
third of what the first frame took.
"""

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget


class KeyLine(Widget):
    """Keys and what they do, as many as there is room for; a click presses the key."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        text-wrap: nowrap;
        color: $footer-foreground;
        background: $footer-background;
    }
    """

    def on_mount(self) -> None:
        """The keys change with the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _: Screen[object]) -> None:
        self.refresh()

    def render(self) -> Content:
        """One key for each action."""
        shown: dict[str, Binding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show and active.enabled:
                shown.setdefault(active.binding.action, active.binding)
        return Content("").join(
            Content.assemble(
                (f" {self.app.get_key_display(binding)} ", "bold $footer-key-foreground"),
                (f"{binding.description} ", "$footer-description-foreground"),
            ).stylize(Style.from_meta({"key": binding.key}))
            for binding in shown.values()
        )

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked on."""
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)
