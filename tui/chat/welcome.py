"""What an empty chat shows: which model is open, and the few keys that matter."""

from collections.abc import Iterator
from pathlib import Path

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from edgellm.fmt import printable
from tui.chat.key_bar import key_of
from tui.core.activity import Activity, Phase
from tui.core.display_names import display_name
from tui.instruments.metric_values import state

_KEYS = (
    ("composer.send", "send", "chat.chats", "earlier chats"),
    ("composer.newline", "new line", "chat.models", "other models"),
    ("/", "commands", "chat.help", "help, all keys"),
)
"""In two columns: the id of a key or the key itself, and what it does."""
_NARROW = 48
_QUIET = "$foreground-muted"


class Welcome(Widget):
    """A quiet card in the middle of the screen, until something is said."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._reading, self._refused = Activity(), ""
        self._shown = Content()
        self._named: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """The card."""
        yield Static()

    def on_mount(self) -> None:
        """Know what the keys of the input box are called before it loses the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._learn)

    def show(self, reading: Activity, refused: str = "") -> None:
        """Say which model is open, or what it waits for; `refused` says why there is none."""
        self._reading, self._refused = reading, refused
        card = Content("\n").join(self._lines())
        if card != self._shown:
            self._shown = card
            self.query_one(Static).update(card)

    def on_resize(self) -> None:
        """On a narrow screen the keys stand one under the other."""
        self.show(self._reading, self._refused)

    def _lines(self) -> Iterator[Content]:
        yield Content.styled("edgellm", "bold $text-primary")
        yield Content.styled("Nothing that you say here leaves this machine.", _QUIET)
        yield Content()
        yield from self._model()
        yield Content()
        yield from self._keys()

    def _model(self) -> Iterator[Content]:
        reading = self._reading
        mark = (state(reading).text[:2], state(reading).style)
        if reading.phase is Phase.CLOSED:
            yield Content.assemble(mark, f"no model is open: {self._key('chat.models')} chooses one")
            if self._refused:
                yield Content.styled(self._refused, "$text-error")
            return
        yield Content.assemble(mark, (display_name(reading.model, 44), "bold"))
        about = f"{reading.context:,} tokens of context" if reading.context else printable(reading.progress, 44)
        yield Content.styled(f"  {about}", _QUIET)

    def _keys(self) -> Iterator[Content]:
        narrow = self.size.width < _NARROW
        for left, does, right, opens in _KEYS:
            first, second = self._entry(left, does), self._entry(right, opens)
            yield from (first, second) if narrow else (first.pad_right(24 - first.cell_length) + second,)

    def _entry(self, key: str, does: str) -> Content:
        return Content.assemble((self._key(key).ljust(7), "$text-accent"), does)

    def _learn(self, screen: Screen[None]) -> None:
        for left, _, right, _ in _KEYS:
            self._key(left)
            self._key(right)

    def _key(self, name: str) -> str:
        """How the key of a binding is called, or the name itself where none has it.

        Keys of the input box do nothing while another widget has the focus, but are still called what they were.
        """
        self._named[name] = key_of(self.screen, name).replace("⏎", "enter") or self._named.get(name, name)
        return self._named[name]
