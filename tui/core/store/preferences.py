"""What is stored beside the chats: settings of each model, preferences, and the history of sent texts."""

import json
from collections.abc import Mapping
from typing import Any

from tui.core.store.database import Database
from tui.core.store.search import Run
from tui.core.store.validation import InvalidError, instance_of

_MAX_HISTORY = 1000


class Preferences:
    """Values by name, as JSON. Methods raise EdgeLLMError if the file cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str, default: object) -> object:
        """A preference, or `default` if none is stored."""
        with self._database.read() as run:
            found = run("SELECT value FROM preferences WHERE name = ?", name).fetchone()
            return parse_json(found[0]) if found else default

    def set(self, name: str, value: object) -> None:
        """Store a preference; the value must be serializable to JSON."""
        with self._database.change() as run:
            run("INSERT OR REPLACE INTO preferences VALUES (?, ?)", name, json.dumps(value))

    def settings(self, model: str) -> dict[str, object]:
        """The settings of a model; empty if none are stored."""
        with self._database.read() as run:
            return _settings(run, model)

    def save_settings(self, model: str, values: Mapping[str, Any]) -> None:
        """Replace all settings of a model."""
        with self._database.change() as run:
            _save_settings(run, model, values)

    def change_settings(self, model: str, changes: Mapping[str, Any]) -> None:
        """Change some settings of a model; None removes one. The others stay, whichever program stored them."""
        with self._database.change() as run:
            every = {**_settings(run, model), **changes}
            _save_settings(run, model, {name: value for name, value in every.items() if value is not None})

    def history(self, limit: int = 200) -> list[str]:
        """The last texts sent in any chat, the newest last."""
        with self._database.read() as run:
            found = run("SELECT CAST(text AS TEXT) FROM history ORDER BY id DESC LIMIT ?", limit)
            return [text for (text,) in found][::-1]

    def add_to_history(self, text: str) -> None:
        """Store a sent text as the newest; an older entry of the same text is removed."""
        if text.strip():
            with self._database.change() as run:
                run("INSERT OR REPLACE INTO history (text) VALUES (?)", text)
                run("DELETE FROM history WHERE id <= (SELECT max(id) FROM history) - ?", _MAX_HISTORY)


def _settings(run: Run, model: str) -> dict[str, object]:
    found = run("SELECT value FROM settings WHERE model = ?", model).fetchone()
    return dict(instance_of(dict, "the settings of a model")(parse_json(found[0]))) if found else {}


def _save_settings(run: Run, model: str, values: Mapping[str, Any]) -> None:
    if values:
        run("INSERT OR REPLACE INTO settings VALUES (?, ?)", model, json.dumps(dict(values)))
    else:
        run("DELETE FROM settings WHERE model = ?", model)


def parse_json(text: Any) -> Any:
    """The value of a JSON text. Raises InvalidError."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise InvalidError("a stored value is no JSON") from None
