"""The model that is open or being opened, and its settings."""

from typing import Any

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable
from tui.core.display_names import display_name
from tui.core.events import Emit, ModelFailed, ModelOpened, Notice, SettingsChanged
from tui.core.model_settings import EFFORTS, ModelSettings
from tui.core.session_tools import SessionTools
from tui.core.setting_values import unset_text, value_text
from tui.core.settings import SETTINGS, Group, Setting, setting
from tui.core.store import Store
from tui.core.store_errors import store_or_notify
from tui.core.worker import Worker

_CALLS = "choose a model whose template does (docs/tools.md lists families), or write one: /set template FILE"
_LATE_SERVERS = "the MCP servers are still being started: this reply gets none of their tools; /regen makes another one"


class CurrentModel:
    """The one model that replies.

    `name` is its name in lists, or what was requested until it is open. `path` opens it again from any folder.
    `opened` is None while no model is open; `error` then says why the requested model could not be opened.
    """

    def __init__(self, worker: Worker, settings: ModelSettings, tools: SessionTools, store: Store, emit: Emit) -> None:
        self._worker, self._tools, self._store, self._emit = worker, tools, store, emit
        self.settings = settings
        self.name: str | None = None
        self.path: str | None = None
        self.opened: ModelOpened | None = None
        self.error: str | None = None
        self._last: ModelOpened | None = None
        self._opened_with = settings.snapshot()

    @property
    def server(self) -> str:
        """The host of the server whose models these are; empty for this machine."""
        return self._worker.backend.server

    def owns(self, model: str) -> bool:
        """Whether a model that is stored with a chat is one of this machine, or of the server."""
        return self._worker.backend.owns(model)

    @property
    def settable(self) -> tuple[Setting, ...]:
        """The settings that there are: how a model is opened, the owner of its server decides."""
        return tuple(each for each in SETTINGS if not self.server or each.group is Group.GENERATION)

    def open(self, name: str) -> None:
        """Open a model in place of the open one. The chat goes on with it, and waiting replies are for it."""
        requested = self._worker.backend.reference(name)
        store_or_notify(self._emit, lambda: self.settings.recall(requested))
        self.name, self.path = self._worker.backend.title(requested), requested
        self.opened = self.error = None
        self._worker.open(requested, lambda found, path: self._load_options(requested, found, path))
        self._emit(SettingsChanged())

    def reopen(self) -> None:
        """Open the model again, with its settings as they are now."""
        if self.path:
            self.open(self.path)

    def _load_options(self, requested: str, name: str, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        store_or_notify(self._emit, lambda: found.update(self.settings.loading(requested, name, path)))
        return found

    def reply_options(self) -> dict[str, Any]:
        """The options of `edgellm.chat.Chat.reply`. A model whose template shows no calls gets no tools."""
        session = self._tools.options()
        if self.opened and not self.opened.calls:
            session.pop("tools", None)
        return {**self.settings.for_replies(), **session}

    def warn_of_late_servers(self) -> None:
        """Say that a reply gets no tools of MCP servers, if these are still being started."""
        if self._tools.servers.is_opening:
            self._emit(Notice(_LATE_SERVERS, "warning"))

    def check_calls(self) -> None:
        """Raises EdgeLLMError if the open model cannot call tools."""
        if self.opened and not self.opened.calls:
            raise EdgeLLMError(f"the chat template {self._template_name()} shows no calls of tools: {_CALLS}")

    def _template_name(self) -> str:
        """The name of the template in use, or whose it is."""
        if template := self.settings.values.get("template"):
            return f"{printable(value_text(template), 400)}, which is set,"
        return f"of {display_name(self.opened.name if self.opened else '')}"

    def value(self, name: str) -> str:
        """The value of a setting as text. Raises OptionError for an unknown name."""
        option = setting(name)
        if option.name in self.settings.values:
            return value_text(self.settings.values[option.name])
        if self.server:
            return "the server's default"
        from_file = self.opened.defaults.get(option.name) if self.opened else None
        default = option.default if from_file is None else from_file
        if default is None:
            return ", ".join(filter(None, unset_text(option.name)))
        return f"{value_text(default) or 'none'} (default)"

    def set(self, name: str, text: str) -> None:
        """Set a setting of this model; empty text sets the default. Opens the model again where that is necessary."""
        if self.set_without_reopen(name, text):
            self.reopen()

    def set_without_reopen(self, name: str, text: str) -> bool:
        """Set a setting of this model. Returns whether it takes effect only after `reopen`. Raises OptionError."""
        if setting(name) not in self.settable:
            raise OptionError(f"{setting(name).name} is a setting of the server {self.server}, not of this chat")
        changed = self.settings.set(name, text)
        self._emit(SettingsChanged())
        return changed.loads

    def reset(self) -> None:
        """Set all settings of this model to their defaults."""
        loads = self.settings.for_loading()
        self.settings.reset()
        self._emit(SettingsChanged())
        if loads:
            self.reopen()

    def think(self, thinking: bool | None) -> None:
        """Switch thinking on or off; None leaves it to the chat template. Raises EdgeLLMError if there is no switch."""
        if not self.opened or not self.opened.thinking:
            raise EdgeLLMError("this model's template has no switch for thinking")
        self.settings.think(thinking)
        self._emit(SettingsChanged())

    def set_effort(self, effort: str | None) -> None:
        """Set the effort of thinking, one of EFFORTS; None leaves it to the chat template. Raises EdgeLLMError."""
        if not self.opened or not self.opened.effort:
            raise EdgeLLMError("this model's template takes no effort of thinking")
        if effort not in (None, *EFFORTS):
            raise EdgeLLMError(f"there is no effort {printable(effort)}; choose {', '.join(EFFORTS)}")
        self.settings.set_effort(effort)
        self._emit(SettingsChanged())

    def switch_thinking(self) -> bool:
        """Switch thinking on if it is off, else off. Returns whether it is on. Raises EdgeLLMError as `think` does."""
        self.think(self.settings.thinking is False)
        return bool(self.settings.thinking)

    def on_opened(self, event: ModelOpened) -> bool:
        """Take an opened model, and store it as the one to begin with. Returns False if another one is wanted by now.

        However the model was requested, its settings are stored under its path.
        """
        if event.requested != self.path:
            return False
        self.opened = self._last = event
        self.name, self.path = event.name, event.path
        store_or_notify(self._emit, lambda: self.settings.move_to_path(event.requested, event.name, event.path))
        self._opened_with = self.settings.snapshot()
        if not self.server:  # a later chat without --server begins with a model of this machine
            store_or_notify(self._emit, lambda: self._store.preferences.set("model", event.path))
        if self._tools.tools and not event.calls:
            text = f"the chat template {self._template_name()} shows no calls: replies get no tools"
            self._emit(Notice(text, "warning"))
        return True

    def on_failed(self, event: ModelFailed) -> None:
        """Go back to the model before, with its settings, if it is still open and no other is wanted by now."""
        advice = ""
        if event.name == self.path:
            if not event.previous_open:
                self.error = event.problem
            elif before := self._last:
                self._go_back(before)
                stays = f"; {display_name(before.name)} stays open"
                advice = f"{stays}, and /set applies to it" if event.needs_setting else stays
        self._emit(Notice(event.problem + advice, "error"))

    def _go_back(self, before: ModelOpened) -> None:
        self.opened, self.name, self.path = before, before.name, before.path
        store_or_notify(self._emit, lambda: self.settings.recall(before.path))
        store_or_notify(self._emit, lambda: self.settings.restore(self._opened_with))
        self._emit(SettingsChanged())
