"""The prompt inspector: the exact prompt that the model gets."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from tui.binding import bind
from tui.clipboard import copy
from tui.core.controller import ChatController
from tui.core.events import Event, Inspected, Notice
from tui.views.lines import Lines
from tui.views.prompt_tokens import PromptTokens
from tui.views.view import View
from tui.views.wrapped import harmless

if TYPE_CHECKING:
    from edgellm.text.inspection import Inspection

_WAITING = "asking the model; during a reply, this waits for its end"


class InspectorScreen(View):
    """Warnings first, then the prompt: as text, or token by token."""

    HEADING = "Prompt"
    CSS_PATH: ClassVar = ["view.tcss", "inspector.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("inspector.turn", "t", "turn", "Text or tokens", "The prompt as text, or token by token"),
        bind("inspector.copy", "c", "copy", "Copy all", "Copy the text, or the ids of its tokens"),
    ]

    def __init__(self, controller: ChatController) -> None:
        super().__init__()
        self._controller = controller
        self._seen: Inspection | None = None
        self._tokens = False

    def contents(self) -> ComposeResult:
        """Warnings, the prompt, and a line about it."""
        yield Static(id="warnings", markup=False)
        yield Lines()
        yield Static(_WAITING, classes="about", markup=False)

    def on_mount(self) -> None:
        """Ask the model's thread."""
        self._controller.status.inspect()

    def show_event(self, event: Event) -> None:
        """Show the prompt, or why there is none."""
        if isinstance(event, Inspected):
            self._seen = event.inspection
            self._show(event.inspection)
        elif isinstance(event, Notice) and event.severity == "error" and not self._seen:
            self._warn([event.text])

    def _show(self, seen: "Inspection") -> None:
        prompt = PromptTokens(seen)
        self._warn(seen.warnings)
        self.query_one(".about", Static).update("\n".join(_about(seen)))
        self.query_one(Lines).show((lambda width: prompt) if self._tokens else prompt.text)

    def _warn(self, warnings: list[str]) -> None:
        line = self.query_one("#warnings", Static)
        line.display = bool(warnings)
        line.update("\n".join(f"⚠ {harmless(warning)}" for warning in warnings))

    def action_turn(self) -> None:
        """Switch between text and tokens."""
        if self._seen:
            self._tokens = not self._tokens
            self._show(self._seen)

    def action_copy(self) -> None:
        """Copy the whole text, or the ids of its tokens."""
        if self._seen:
            ids = " ".join(map(str, self._seen.ids))
            copied = (ids, "the ids") if self._tokens else (self._seen.text, "the text")
            copy(self.app, *copied)


def _about(seen: "Inspection") -> Iterator[str]:
    bos, eos = (f"{name} {'none' if i is None else i}" for name, i in (("BOS", seen.bos_id), ("EOS", seen.eos_id)))
    yield f"{len(seen.ids):,} tokens; {bos}, {eos}"
    stops = ", ".join(f"{harmless(text)} ({i})" for i, text in seen.stop_tokens.items())
    yield f"end-of-generation tokens: {stops or 'none'}"
    if seen.ids and seen.roles is None:
        yield "this template does not show which message each token comes from"
