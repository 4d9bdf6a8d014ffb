"""The call of a tool that asks or runs, shown above the input box."""

from pathlib import Path
from time import monotonic

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from edgellm.terminal.sanitize import sanitize
from tui.chat.key_bar import key_of, keys_of
from tui.core.call_texts import summary
from tui.core.tool_question import Answer, Question
from tui.core.tool_runs import ToolRuns

_TWICE_S = 0.5
"""A key that comes sooner after a question, or after a key before, was meant for another question, or is held down."""


class CallQuestion(VerticalScroll, can_focus=False):
    """Shows the state of `calls`. It never takes the focus: what is typed goes to the input box, not to a question."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, calls: ToolRuns) -> None:
        super().__init__()
        self._calls = calls
        self._shown: Question | None = None
        self._last = 0.0  # when the question appeared, or a key came
        self._text = Static(markup=False)

    def compose(self) -> ComposeResult:
        """The text."""
        yield self._text

    def on_mount(self) -> None:
        """Show nothing yet."""
        self.show()

    def show(self) -> None:
        """Show what is asked now, or which call runs; without either the widget disappears."""
        before, self._shown, call = self._shown, self._calls.question, self._calls.current
        if self._shown is not before:
            self._last = monotonic()
        self.display = call is not None
        if self._shown:
            self.border_title = f"Run {sanitize(self._shown.call.name)}?"
            self.border_subtitle = self._keys()
            self._text.update(self._shown.text)
            self.scroll_home(animate=False)
            self.call_after_refresh(self._show_rest)
        elif call:
            self.border_title, self.border_subtitle = "Runs", f"{key_of(self.screen, 'chat.stop')} stops it"
            self._text.update(summary(call))

    def _show_rest(self) -> None:
        """Show the key that scrolls, if not all of the text is in view."""
        if self._shown and self.max_scroll_y:
            self.border_subtitle = f"{key_of(self.screen, 'chat.page_down')} more · {self._keys()}"

    def scroll_by_page(self, action: str) -> bool:
        """Scroll by a page, for the action `page_up` or `page_down`. Returns False if all of the text is in view."""
        if not self.display or not self.max_scroll_y:
            return False
        (self.scroll_page_up if action == "page_up" else self.scroll_page_down)(animate=False)
        return True

    def _keys(self) -> str:
        """The keys that answer."""
        keys = (("chat.run_once", "once"), ("chat.run_always", "always"), ("chat.refuse", "refuse"))
        names = keys_of(self.screen, dict(keys))
        return " · ".join(f"{names[id]} {what}" for id, what in keys if names.get(id))

    def answer(self, answer: Answer) -> None:
        """Answer the question that is shown. A key that is pressed twice or held down runs nothing else.

        Nothing runs on a screen that is too small for a line of the question.
        """
        before, self._last = self._last, monotonic()
        can_run = self.size.height > 0 and self._last - before > _TWICE_S
        if self._shown and (answer is Answer.REFUSE or can_run):
            self._calls.answer(self._shown, answer)
