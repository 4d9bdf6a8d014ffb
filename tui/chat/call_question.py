"""The call of a tool that asks or runs, shown above the input box."""

from pathlib import Path
from time import monotonic

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from edgellm.terminal.sanitize import sanitize
from tui.chat.key_bar import key_of
from tui.core.call_texts import summary
from tui.core.tool_question import Answer, Question
from tui.core.tool_runs import ToolRuns

_TWICE_S = 0.5
"""A second answer within this time was meant for the question before."""


class CallQuestion(VerticalScroll, can_focus=False):
    """Shows the state of `calls`. It never takes the focus: what is typed goes to the input box, not to a question."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, calls: ToolRuns) -> None:
        super().__init__()
        self._calls = calls
        self._shown: Question | None = None
        self._answered = 0.0
        self._text = Static(markup=False)

    def compose(self) -> ComposeResult:
        """The text."""
        yield self._text

    def on_mount(self) -> None:
        """Show nothing yet."""
        self.show()

    def show(self) -> None:
        """Show what is asked now, or which call runs; without either the widget disappears."""
        self._shown, call = self._calls.question, self._calls.current
        self.display = call is not None
        if self._shown:
            self.border_title = f"Run {sanitize(self._shown.call.name)}?"
            self.border_subtitle = self._keys()
            self._text.update(self._shown.text)
            self.scroll_home(animate=False)
        elif call:
            self.border_title, self.border_subtitle = "Runs", f"{key_of(self.screen, 'chat.stop')} stops it"
            self._text.update(summary(call))

    def _keys(self) -> str:
        """The keys that answer."""
        keys = (("chat.run_once", "once"), ("chat.run_always", "always"), ("chat.refuse", "refuse"))
        return " · ".join(f"{key} {what}" for id, what in keys if (key := key_of(self.screen, id)))

    def answer(self, answer: Answer) -> None:
        """Answer the question that is shown. A key pressed twice does not answer the next one."""
        now = monotonic()
        if self._shown and (answer is Answer.REFUSE or now - self._answered > _TWICE_S):
            self._answered = now
            self._calls.answer(self._shown, answer)
