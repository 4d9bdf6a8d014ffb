"""The settings of the model in use: those stored for it, and those for this run alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tui.core import settings as all_settings
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.settings import LOAD_GROUPS, Group, Setting
from tui.core.store import Store

_THINKING, _EFFORT = "thinking", "reasoning_effort"
EFFORTS = ("low", "medium", "high")
"""How long a model may think, where its chat template takes an effort."""
_OF_ONE_MODEL = ("template", "tokenizer_pre")
"""Options of the command line that hold for the first model alone."""


class SettingsSnapshot(NamedTuple):
    """The three layers of settings at one moment."""

    stored: Mapping[str, Any]
    run: Mapping[str, Any]
    unsaved: Mapping[str, Any]


class ModelSettings:
    """The settings of one model at a time, in three layers.

    Over the settings stored for the model lie the options of the command line, and over both what was set in this run
    and is not saved. None in the upper layers hides a stored value. With `autosave` a setting is stored at once;
    without it, `save` stores what was set.
    """

    def __init__(self, store: Store, run_options: RunOptions = NO_RUN_OPTIONS) -> None:
        self._store, self._model = store, ""
        self._stored: dict[str, Any] = {}
        self._run, self._unsaved = dict(run_options.options), dict[str, Any]()
        self._template_args = run_options.template_args
        self.autosave = True

    @property
    def values(self) -> dict[str, Any]:
        """The settings that differ from the defaults, by name."""
        return {name: value for name, value in self._options().items() if name in all_settings.BY_NAME}

    @property
    def thinking(self) -> bool | None:
        """Whether the model thinks before it replies; None leaves it to the chat template."""
        thinking = {**self._stored, **self._unsaved}.get(_THINKING)
        return thinking if isinstance(thinking, bool) else None

    @property
    def effort(self) -> str | None:
        """One of EFFORTS; None leaves it to the chat template."""
        effort = {**self._stored, **self._unsaved}.get(_EFFORT)
        return effort if effort in EFFORTS else None

    def _options(self) -> dict[str, Any]:
        """All options that differ from the defaults, also those that are no settings."""
        every = {**self._stored, **self._run, **self._unsaved}
        return {name: value for name, value in every.items() if value is not None and name not in (_THINKING, _EFFORT)}

    def recall(self, model: str) -> None:
        """Read the settings stored for a model, and make it the model in use."""
        if self._model not in ("", model):
            self._run = {name: value for name, value in self._run.items() if _is_for_any_model(name, value)}
            self._unsaved = {}
        self._model, self._stored = model, {}  # also where the store fails
        self._stored = _valid(self._store.preferences.settings(model))

    def set(self, name: str, text: str) -> Setting:
        """Set a setting; empty text sets the default. Raises OptionError, and then changes nothing."""
        setting = all_settings.setting(name)
        value = setting.parse(text) if text else None
        self._change({setting.name: value})
        return setting

    def think(self, thinking: bool | None) -> None:
        """Switch thinking on or off; None leaves it to the chat template."""
        self._change({_THINKING: thinking})

    def set_effort(self, effort: str | None) -> None:
        """Set the effort of thinking, one of EFFORTS; None leaves it to the chat template."""
        self._change({_EFFORT: effort})

    def reset(self) -> None:
        """Set all settings to their defaults."""
        if not self.autosave:
            self._unsaved = dict.fromkeys({*self._stored, *self._run})
            return
        self._stored, self._run, self._unsaved = {}, {}, {}
        self._store.preferences.save_settings(self._model, {})

    def save(self) -> bool:
        """Store what was set in this run. Returns whether there was anything to store."""
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            self._save(unsaved)
        return bool(unsaved)

    def _change(self, changes: Mapping[str, Any]) -> None:
        if self.autosave:
            for name in changes:
                self._run.pop(name, None)
            self._save(changes)
        else:
            self._unsaved.update(changes)

    def _save(self, changes: Mapping[str, Any]) -> None:
        every = {**self._stored, **changes}
        self._stored = {name: value for name, value in every.items() if value is not None}
        self._store.preferences.change_settings(self._model, changes)

    def move_to_path(self, requested: str, name: str, path: str) -> None:
        """Store the settings of a model under its path.

        Earlier versions stored them under its name, and what was set while it was opened is under `requested`.
        """
        others = [other for other in {requested, name} - {path} if self._store.preferences.settings(other)]
        if others:
            self._store.preferences.save_settings(path, self._all_stored(requested, name, path))
        for other in others:
            self._store.preferences.save_settings(other, {})
        if self._model in (requested, name):
            self._model = path  # the same model: `recall` must not drop its unsaved settings
        self.recall(path)

    def _all_stored(self, requested: str, name: str, path: str) -> dict[str, Any]:
        """The settings stored for a model under its three names, those set last over those before."""
        return {
            **self._store.preferences.settings(name),
            **self._store.preferences.settings(path),
            **self._store.preferences.settings(requested),
        }

    def for_loading(self) -> dict[str, Any]:
        """The fields of `LoadOptions` and `TemplateOptions` that differ from the defaults."""
        return all_settings.chosen(self._options(), *LOAD_GROUPS)

    def loading(self, requested: str, name: str, path: str) -> dict[str, Any]:
        """The same for any model, as it is stored; from any thread."""
        stored = _valid(self._all_stored(requested, name, path))
        return all_settings.chosen({**stored, **self._run, **self._unsaved}, *LOAD_GROUPS)

    def snapshot(self) -> SettingsSnapshot:
        """What the model is opened with now, for `restore`."""
        return SettingsSnapshot(all_settings.chosen(self._stored, *LOAD_GROUPS), dict(self._run), dict(self._unsaved))

    def restore(self, snapshot: SettingsSnapshot) -> None:
        """Go back to the loading options of a snapshot; all other settings stay as they are."""
        now = all_settings.chosen(self._stored, *LOAD_GROUPS)
        self._run = {**self._run, **all_settings.chosen(snapshot.run, *LOAD_GROUPS)}
        unsaved = all_settings.rest(self._unsaved, *LOAD_GROUPS)
        self._unsaved = {**unsaved, **all_settings.chosen(snapshot.unsaved, *LOAD_GROUPS)}
        if now != snapshot.stored:
            self._save({name: snapshot.stored.get(name) for name in {*now, *snapshot.stored}})

    @property
    def overflow(self) -> str:
        """The policy for a conversation that outgrows the context: `stop`, `drop` or `window`."""
        return str(self.values.get("overflow", all_settings.BY_NAME["overflow"].default))

    def for_replies(self) -> dict[str, Any]:
        """The options of `edgellm.chat.Chat.reply` that differ from the defaults."""
        options = all_settings.chosen(self._options(), Group.GENERATION, Group.CHAT)
        chosen = {"enable_thinking": self.thinking, _EFFORT: self.effort}
        args = dict(self._template_args) | {name: value for name, value in chosen.items() if value is not None}
        return {**options, "template_args": args} if args else options


def _is_for_any_model(name: str, value: Any) -> bool:
    """Whether an option of the command line holds for other models, too: a draft model that was named may not fit."""
    return name not in _OF_ONE_MODEL and not (name == "draft" and value not in ("auto", "off"))


def _valid(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored settings that this version can use."""
    found = all_settings.valid(stored)
    if isinstance(stored.get(_THINKING), bool):
        found[_THINKING] = stored[_THINKING]
    if stored.get(_EFFORT) in EFFORTS:
        found[_EFFORT] = stored[_EFFORT]
    return found
