"""What is kept beside the chats: settings of each model, preferences, what was typed before."""

import json
from collections.abc import Mapping
from typing import Any

from tui.core.store.database import Database
from tui.core.store.search import Run
from tui.core.store.validation import InvalidError, of

_HISTORY = 1000


class Preferences(Database):
    """Small values by name. All methods raise EdgeLLMError if the file fails them."""

    def settings(self, model: str) -> dict[str, object]:
        """What was set for a model; empty where nothing was."""
        with self._look() as run:
            found = run("SELECT value FROM settings WHERE model = ?", model).fetchone()
            return dict(of(dict, "the settings of a model")(decoded(found[0]))) if found else {}

    def save_settings(self, model: str, values: Mapping[str, Any]) -> None:
        """Keep all that is set for a model, values as JSON has them."""
        with self._change() as run:
            _save(run, model, values)

    def change_settings(self, model: str, changes: Mapping[str, Any]) -> None:
        """Keep some of what is set for a model; None takes one away. The others stay, whichever program set them."""
        with self._change() as run:
            found = run("SELECT value FROM settings WHERE model = ?", model).fetchone()
            before = of(dict, "the settings of a model")(decoded(found[0])) if found else {}
            values = {name: value for name, value in {**before, **changes}.items() if value is not None}
            _save(run, model, values)

    def preference(self, name: str, default: object) -> object:
        """What was kept under a name, or else `default`."""
        with self._look() as run:
            found = run("SELECT value FROM preferences WHERE name = ?", name).fetchone()
            return decoded(found[0]) if found else default

    def set_preference(self, name: str, value: object) -> None:
        """Keep a value that JSON can have."""
        with self._change() as run:
            run("INSERT OR REPLACE INTO preferences VALUES (?, ?)", name, json.dumps(value))

    def history(self, limit: int = 200) -> list[str]:
        """The last texts that were sent, of all chats, the newest last."""
        with self._look() as run:
            found = run("SELECT CAST(text AS TEXT) FROM history ORDER BY id DESC LIMIT ?", limit)
            return [text for (text,) in found][::-1]

    def remember(self, text: str) -> None:
        """Keep a text that was sent; one that was there before moves to the end."""
        if text.strip():
            with self._change() as run:
                run("INSERT OR REPLACE INTO history (text) VALUES (?)", text)
                run("DELETE FROM history WHERE id <= (SELECT max(id) FROM history) - ?", _HISTORY)


def _save(run: Run, model: str, values: Mapping[str, Any]) -> None:
    if values:
        run("INSERT OR REPLACE INTO settings VALUES (?, ?)", model, json.dumps(dict(values)))
    else:
        run("DELETE FROM settings WHERE model = ?", model)


def decoded(text: Any) -> Any:
    """The value of a JSON text. Raises InvalidError."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise InvalidError("what is kept there is no JSON") from None
