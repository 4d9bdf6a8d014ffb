"""The card in an empty chat: the model, and the most important keys."""

from collections.abc import Iterator
from pathlib import Path

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from edgellm.fmt import printable
from tui.chat.key_bar import keys_of
from tui.core.activity import Activity, Phase
from tui.core.display_names import display_name
from tui.instruments.metric_values import state

_KEYS = (
    ("composer.send", "send", "chat.chats", "earlier chats"),
    ("composer.newline", "new line", "chat.models", "other models"),
    ("/", "commands", "chat.help", "help, all keys"),
)
"""Two columns of pairs: the id of a binding, or a key, and what the key does."""

_NARROW = 48
"""Columns, below which the pairs are one below the other."""

_QUIET = "$foreground-muted"


class Welcome(Widget):
    """A card in the middle of the screen, until the first message is sent."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._activity, self._error = Activity(), ""
        self._shown = Content()
        self._key_names: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """The card."""
        yield Static()

    def on_mount(self) -> None:
        """Learn the names of the keys whenever other bindings are active."""
        self.screen.bindings_updated_signal.subscribe(self, self._learn)

    def show(self, activity: Activity, error: str = "") -> None:
        """Show the model, or the progress of its loading; `error` says why no model is open."""
        self._activity, self._error = activity, error
        card = Content("\n").join(self._lines())
        if card != self._shown:
            self._shown = card
            self.query_one(Static).update(card)

    def on_resize(self) -> None:
        """Lay the keys out for the new width."""
        self.show(self._activity, self._error)

    def _lines(self) -> Iterator[Content]:
        yield Content.styled("edgellm", "bold $text-primary")
        yield Content.styled(_privacy(self._activity.server), _QUIET)
        yield Content()
        yield from self._model()
        yield Content()
        yield from self._keys()

    def _model(self) -> Iterator[Content]:
        activity = self._activity
        mark = (state(activity).text[:2], state(activity).style)
        if activity.phase is Phase.CLOSED:
            yield Content.assemble(mark, f"no model is open: {self._key('chat.models')} chooses one")
            if self._error:
                yield Content.styled(self._error, "$text-error")
            return
        yield Content.assemble(mark, (display_name(activity.model, 44), "bold"))
        about = printable(activity.progress, 44)
        if activity.context or (activity.server and activity.phase is not Phase.LOADING):
            about = f"{activity.context:,} tokens of context" if activity.context else ""
        yield Content.styled(f"  {about}", _QUIET)

    def _keys(self) -> Iterator[Content]:
        narrow = self.size.width < _NARROW
        for left, does, right, opens in _KEYS:
            first, second = self._entry(left, does), self._entry(right, opens)
            yield from (first, second) if narrow else (first.pad_right(24 - first.cell_length) + second,)

    def _entry(self, key: str, does: str) -> Content:
        return Content.assemble((self._key(key).ljust(7), "$text-accent"), does)

    def _learn(self, screen: Screen[None]) -> None:
        """Learn the names of the keys that are active now.

        The last name is kept for the bindings of the input box, which are inactive while another widget has the focus.
        """
        ids = {id for left, _, right, _ in _KEYS for id in (left, right)}
        self._key_names |= {id: key.replace("⏎", "enter") for id, key in keys_of(screen, ids).items()}
        self.show(self._activity, self._error)

    def _key(self, name: str) -> str:
        """The name of the key of a binding, or `name` itself if there is no such binding."""
        return self._key_names.get(name, name)


def _privacy(server: str) -> str:
    """Where messages go."""
    if server:
        return f"What you say here goes to {printable(server, 44)}."
    return "Nothing that you say here leaves this machine."
