"""What is set for the model in use: as it is kept in the store, and for this run alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tui.core import settings as known
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.settings import OPENING, Group, Setting
from tui.core.store import Store

_THINKING = "thinking"
_OF_ONE_MODEL = ("template", "tokenizer_pre")
"""Options that mean one model, and do another no good."""


class SettingsSnapshot(NamedTuple):
    """What a model was opened with, to go back to: what is kept of it, and what holds for this run."""

    kept: Mapping[str, Any]
    given: Mapping[str, Any]
    said: Mapping[str, Any]


class ModelSettings:
    """The settings of one model at a time.

    Over what is kept for it lies what the command line `given`, and over both what was `said` for this run alone. In
    these None takes back what is kept. What is set is kept for good if `keeps`; else `keep` does that later.
    """

    def __init__(self, store: Store, given: RunOptions = NO_RUN_OPTIONS) -> None:
        self._store, self._model = store, ""
        self._kept: dict[str, Any] = {}
        self._given, self._said = dict(given.options), dict[str, Any]()
        self._template_args = given.template_args
        self.keeps = True

    @property
    def values(self) -> dict[str, Any]:
        """What differs from what the model and edgellm bring, by the names of settings."""
        return {name: value for name, value in self._options().items() if name in known.BY_NAME}

    @property
    def thinking(self) -> bool | None:
        """Whether the model shall think before it replies; None leaves it to the template."""
        thinking = {**self._kept, **self._said}.get(_THINKING)
        return thinking if isinstance(thinking, bool) else None

    def _options(self) -> dict[str, Any]:
        """All that differs, options without a setting, too."""
        every = {**self._kept, **self._given, **self._said}
        return {name: value for name, value in every.items() if value is not None and name != _THINKING}

    def recall(self, model: str) -> None:
        """What was set for a model before."""
        if self._model not in ("", model):
            self._given = {name: value for name, value in self._given.items() if name not in _OF_ONE_MODEL}
            self._said = {}
        self._model, self._kept = model, {}  # also where the store fails
        self._kept = _valid(self._store.settings(model))

    def set(self, name: str, text: str) -> Setting:
        """Set something; empty text goes back to the default. Raises OptionError, and then changes nothing."""
        setting = known.setting(name)
        value = setting.parse(text) if text else None
        self._change({setting.name: value})
        return setting

    def think(self, thinking: bool | None) -> None:
        """Let the model think before it replies, or not, or (None) as its template does."""
        self._change({_THINKING: thinking})

    def reset(self) -> None:
        """Everything as it comes."""
        if not self.keeps:
            self._said = dict.fromkeys({*self._kept, *self._given})
            return
        self._kept, self._given, self._said = {}, {}, {}
        self._store.save_settings(self._model, {})

    def keep(self) -> bool:
        """Keep for good what was set for this run. False where nothing was."""
        said, self._said = self._said, {}
        if said:
            self._keep(said)
        return bool(said)

    def _change(self, changes: Mapping[str, Any]) -> None:
        if self.keeps:
            for name in changes:
                self._given.pop(name, None)
            self._keep(changes)
        else:
            self._said.update(changes)

    def _keep(self, changes: Mapping[str, Any]) -> None:
        every = {**self._kept, **changes}
        self._kept = {name: value for name, value in every.items() if value is not None}
        self._store.change_settings(self._model, changes)

    def found(self, asked: str, name: str, path: str) -> None:
        """Keep under its path what was set for a model under its name, by earlier versions, or under what was asked
        for, while it was opened."""
        others = [other for other in {asked, name} - {path} if self._store.settings(other)]
        if others:
            self._store.save_settings(path, self._stored(asked, name, path))
        for other in others:
            self._store.save_settings(other, {})
        if self._model in (asked, name):
            self._model = path  # the same model, by a better name
        self.recall(path)

    def _stored(self, asked: str, name: str, path: str) -> dict[str, Any]:
        """All that is kept for a model, what was set last over what was before."""
        return {**self._store.settings(name), **self._store.settings(path), **self._store.settings(asked)}

    def for_loading(self) -> dict[str, Any]:
        """What differs of `LoadOptions` and `TemplateOptions`."""
        return known.chosen(self._options(), *OPENING)

    def loading(self, asked: str, name: str, path: str) -> dict[str, Any]:
        """The same for any model, as it is kept; from any thread."""
        return known.chosen({**_valid(self._stored(asked, name, path)), **self._given, **self._said}, *OPENING)

    def state(self) -> SettingsSnapshot:
        """What the model is opened with now."""
        return SettingsSnapshot(known.chosen(self._kept, *OPENING), dict(self._given), dict(self._said))

    def go_back(self, state: SettingsSnapshot) -> None:
        """Have what a model is opened with be as it was, and all else as it is."""
        now = known.chosen(self._kept, *OPENING)
        self._given = {**self._given, **known.chosen(state.given, *OPENING)}
        self._said = {**known.rest(self._said, *OPENING), **known.chosen(state.said, *OPENING)}
        if now != state.kept:
            self._keep({name: state.kept.get(name) for name in {*now, *state.kept}})

    @property
    def overflow(self) -> str:
        """What becomes of a conversation that outgrows the context."""
        return str(self.values.get("overflow", known.BY_NAME["overflow"].default))

    def for_replies(self) -> dict[str, Any]:
        """What a reply is asked for with."""
        options = known.chosen(self._options(), Group.GENERATION, Group.CHAT)
        args = dict(self._template_args) | ({} if self.thinking is None else {"enable_thinking": self.thinking})
        return {**options, "template_args": args} if args else options


def _valid(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept for a model, as far as it can be used."""
    found = known.valid(stored)
    return {**found, _THINKING: stored[_THINKING]} if isinstance(stored.get(_THINKING), bool) else found
