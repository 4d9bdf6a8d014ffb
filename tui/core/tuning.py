"""What is set for the model in use, as it is kept in the store."""

from collections.abc import Mapping
from typing import Any

from tui.core import settings as known
from tui.core.settings import Group, Setting
from tui.core.store import Store

_THINKING = "thinking"


class Tuning:
    """The settings of one model at a time. `values` are those that differ from what the model and edgellm bring.

    `thinking`: whether the model shall think before it replies; None leaves it to the template.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._model = store, ""
        self.values: dict[str, Any] = {}
        self.thinking: bool | None = None

    def recall(self, model: str) -> None:
        """What was set for a model before."""
        self._model, self.values, self.thinking = model, {}, None  # also where the store fails
        stored = dict(self._store.settings(model))
        thinking = stored.pop(_THINKING, None)
        self.values = known.valid(stored)
        self.thinking = thinking if isinstance(thinking, bool) else None

    def set(self, name: str, text: str) -> Setting:
        """Set something; empty text goes back to the default. Raises OptionError, and then changes nothing."""
        setting = known.setting(name)
        if text:
            self.values[setting.name] = setting.parse(text)
        else:
            self.values.pop(setting.name, None)
        self._store.change_settings(self._model, {setting.name: self.values.get(setting.name)})
        return setting

    def reset(self) -> None:
        """Everything as it comes."""
        self.values, self.thinking = {}, None
        self._store.save_settings(self._model, {})

    def think(self, thinking: bool | None) -> None:
        """Let the model think before it replies, or not, or (None) as its template does."""
        self.thinking = thinking
        self._store.change_settings(self._model, {_THINKING: thinking})

    def move(self, model: str, to: str) -> None:
        """What was set for a model under one name is set under another, too, and no longer under the first."""
        if moved := self._store.settings(model):
            self._store.change_settings(to, moved)
            self._store.save_settings(model, {})

    def for_loading(self) -> dict[str, Any]:
        """What differs of `LoadOptions`."""
        return known.chosen(self.values, Group.LOAD)

    def load_with(self, values: Mapping[str, Any]) -> None:
        """Have these of `LoadOptions` differ, and no others."""
        changes = {name: values.get(name) for name in {*self.for_loading(), *values}}
        self.values = {**{name: value for name, value in self.values.items() if name not in changes}, **values}
        self._store.change_settings(self._model, changes)

    def loading(self, model: str) -> dict[str, Any]:
        """What differs of `LoadOptions` for any model, as it is kept; from any thread."""
        return known.chosen(known.valid(self._store.settings(model)), Group.LOAD)

    @property
    def overflow(self) -> str:
        """What becomes of a conversation that outgrows the context."""
        return str(self.values.get("overflow", known.BY_NAME["overflow"].default))

    def for_replies(self) -> dict[str, Any]:
        """What a reply is asked for with."""
        options = known.chosen(self.values, Group.GENERATION, Group.CHAT)
        return options if self.thinking is None else {**options, "template_args": {"enable_thinking": self.thinking}}
