"""Shows the conversation, the running reply and the figures."""

from time import monotonic

from textual.timer import Timer

from tui.chat.refresh_rate import RefreshRate
from tui.chat.transcript_entries import TranscriptEntries
from tui.chat.welcome import Welcome
from tui.core.activity import Activity, Phase
from tui.core.controller import ChatController
from tui.core.memory import Memory, memory
from tui.instruments import Panel, StatusLine
from tui.transcript import Transcript

_FIGURES_INTERVAL_S = 1 / 4


class ConversationView:
    """Fills the widgets of the screen from the controller, and refreshes them while something happens."""

    def __init__(
        self,
        controller: ChatController,
        transcript: Transcript,
        welcome: Welcome,
        status_line: StatusLine,
        panel: Panel,
    ) -> None:
        self._controller = controller
        self._transcript, self._welcome = transcript, welcome
        self._instruments = (status_line, panel)
        self._entries = TranscriptEntries(controller)
        self._rate, self._due = RefreshRate(), 0.0
        self._ticker: Timer | None = None
        self._memory: Memory | None = None
        self._phase, self._figures_at = Phase.CLOSED, 0.0
        self._dropped = 0
        self._seen: int | None = None  # the running reply that was scrolled to

    def start(self, ticker: Timer) -> None:
        """Refresh by a timer, which is paused while nothing happens and calls `refresh_if_due`."""
        self._ticker = ticker

    def show(self) -> None:
        """Show the messages of the path, and scroll to a reply that is new."""
        running = self._controller.replies.running
        if running not in (None, self._seen):
            self._transcript.following = True
        self._seen = running
        entries = self._entries.shown()
        self._welcome.display = not entries
        self._transcript.show(entries)
        self._transcript.screen.refresh_bindings()

    def keep_position(self) -> None:
        """Do not scroll to the reply that is running now."""
        self._seen = self._controller.replies.running

    def point_at(self, message: int, words: str) -> None:
        """Mark a message, and scroll to the first of the words in it."""
        self.show()
        self._transcript.point_at(message, words)

    def refresh(self) -> None:
        """Show the text of the running reply and the figures."""
        activity, running = self._controller.status.activity(), self._controller.replies.running
        if running is not None and (written := self._controller.worker.written(running)):
            self._transcript.set_text(running, written.text)
        if activity.dropped_messages != self._dropped:  # no event tells of this while a reply runs
            self._dropped = activity.dropped_messages
            self.show()
        self._show_figures(activity)
        if self._welcome.display:
            self._welcome.show(activity, self._controller.model.error or "")
        self._due = monotonic() + self._rate.wait()
        if self._ticker:
            busy = running is not None or activity.phase is Phase.LOADING
            self._ticker.resume() if busy else self._ticker.pause()

    def refresh_if_due(self) -> None:
        """Refresh, unless the last time was too short ago for this computer."""
        if monotonic() >= self._due:
            self.refresh()

    def refresh_memory(self) -> None:
        """Measure the memory again, and refresh."""
        self._memory = memory()
        self.refresh()

    def _show_figures(self, activity: Activity) -> None:
        """Show the figures at once, but only four times a second while text comes: they cost as much as the text."""
        now, phases = monotonic(), {self._phase, activity.phase}
        if phases != {Phase.DECODE} or now - self._figures_at >= _FIGURES_INTERVAL_S:
            self._phase, self._figures_at = activity.phase, now
            for instrument in self._instruments:
                instrument.show(activity, self._memory)
