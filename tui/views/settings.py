"""The settings of the model in use, and the system prompt of the chat."""

from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.markup import escape
from textual.widgets import Label, Static, TextArea

from tui.binding import bind
from tui.core.controller import ChatController
from tui.core.display_names import display_name
from tui.core.events import Event, ModelFailed, ModelOpened, SettingsChanged
from tui.core.model_settings import EFFORTS
from tui.core.setting_values import AUTOMATIC, unset_text, value_text
from tui.core.settings import Setting
from tui.views.setting_row import SettingRow
from tui.views.view import View

_SYSTEM = "Instructions to the model at the beginning of this chat; empty: none. Tab leaves the text"
_THINKING = "Whether the model thinks before it replies"
_EFFORT = "How long the model may think before it replies"


class SettingsScreen(View):
    """Values are saved when a row is left. Loading options reload the model once, when the screen closes."""

    CSS_PATH: ClassVar = ["view.tcss", "settings.tcss"]
    AUTO_FOCUS = "SettingRow Input"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (50, "-high")]  # noqa: RUF012 (an instance variable of its base)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f4", "close", show=False),
        bind("settings.up", "up", "app.focus_previous", "Up", "The setting above", show=False),
        bind("settings.down", "down", "app.focus_next", "Down", "The setting below", show=False),
        bind("settings.reset", "ctrl+r", "reset", "Default", "Reset this setting"),
        bind("settings.reset_all", "ctrl+t", "reset_all", "All defaults", "Reset all settings of this model"),
    ]

    def __init__(self, controller: ChatController) -> None:
        super().__init__()
        self._controller, self._loaded = controller, controller.settings.for_loading()
        self._system = TextArea(controller.conversation.chat.system or "", tab_behavior="focus", compact=True)
        self._thinking = SettingRow("thinking", _THINKING, choices=("on", "off"))
        self._effort = SettingRow("effort", _EFFORT, choices=EFFORTS)
        self._rows = {SettingRow(s.name, _about(s), s.parse, s.choices): s for s in controller.model.settable}

    def contents(self) -> ComposeResult:
        """A row for each setting, and a line about the focused one if the screen is too low to explain all."""
        with Vertical(id="rows"):
            with Horizontal(id="system"):
                yield Label("system prompt", classes="name")
                yield self._system
            yield self._thinking
            yield self._effort
            yield from self._rows
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        """Show the current values."""
        self._show()

    def show_event(self, event: Event) -> None:
        """Show changed values and defaults."""
        if isinstance(event, ModelOpened | ModelFailed | SettingsChanged):
            self._show()

    def _show(self) -> None:
        model, settings = self._controller.model, self._controller.settings
        self.query_one("#frame").border_title = escape(f"Settings of {display_name(model.name or 'no model', 40)}")
        self._thinking.display = bool(model.opened and model.opened.thinking)
        self._thinking.show({True: "on", False: "off", None: ""}[settings.thinking], AUTOMATIC, "by the template")
        self._effort.display = bool(model.opened and model.opened.effort)
        self._effort.show(settings.effort or "", AUTOMATIC, "by the template")
        for row, setting in self._rows.items():
            row.show(value_text(settings.values.get(setting.name)), *self._default(setting))

    def _default(self, setting: Setting) -> tuple[str, str]:
        """The default of a setting, and its source."""
        if self._controller.model.server:
            return AUTOMATIC, "by the server"
        opened = self._controller.model.opened
        brought = opened.defaults if opened else {}
        if setting.name in brought:
            return _shown(brought[setting.name]), "from the model"
        if setting.default is not None:
            return _shown(setting.default), "edgellm's"
        activity = self._controller.status.activity()
        found = {"ctx": activity.context, "threads": activity.threads}.get(setting.name)
        unset = setting.name not in self._controller.settings.values
        shown, note = unset_text(setting.name)
        return shown, f"{found:,} now" if found and unset else note

    # What the user does

    def on_descendant_focus(self) -> None:
        """Explain the focused setting."""
        row = self._focused()
        self.query_one(".about", Static).update(row.about if row else _SYSTEM)

    def on_descendant_blur(self) -> None:
        """Save the system prompt."""
        self._take_system()

    @on(SettingRow.Left)
    def _left(self, message: SettingRow.Left) -> None:
        self._take(message.row)

    def action_reset(self) -> None:
        """Reset the focused setting to its default."""
        if row := self._focused():
            row.text = ""
            self._take(row)
        else:
            self._system.text = ""

    def action_reset_all(self) -> None:
        """Reset all settings of the model; the system prompt belongs to the chat, and stays."""
        for row in (self._thinking, self._effort, *self._rows):
            row.text = ""
        self.attempt(self._controller.model.reset)
        self._loaded = {}

    def action_close(self) -> None:
        """Save valid values, reload the model if needed, and close."""
        self._take_system()
        for row in self._rows:
            self._take(row)
        if self._controller.settings.for_loading() != self._loaded:
            self.attempt(self._controller.model.reopen)
        super().action_close()

    def _take(self, row: SettingRow) -> None:
        if row is self._thinking:
            self.attempt(lambda: self._controller.model.think({"on": True, "off": False}.get(row.text)))
        elif row is self._effort:
            self.attempt(lambda: self._controller.model.set_effort(row.text or None))
        elif not row.wrong and row.text != value_text(self._controller.settings.values.get(self._rows[row].name)):
            self.attempt(lambda: self._controller.model.set_without_reopen(self._rows[row].name, row.text))

    def _take_system(self) -> None:
        if (text := self._system.text.strip()) != (self._controller.conversation.chat.system or ""):
            self.attempt(lambda: self._controller.set_system(text))

    def _focused(self) -> SettingRow | None:
        at = self.focused
        return next((node for node in at.ancestors if isinstance(node, SettingRow)), None) if at else None


def _about(setting: Setting) -> str:
    return f"{setting.help}; reloads the model" if setting.loads else setting.help


def _shown(default: Any) -> str:
    return value_text(default) or "none"
