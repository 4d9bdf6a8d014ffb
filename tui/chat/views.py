"""The screens that open over the conversation. Their modules are loaded when they are first wanted."""

from typing import Any

from textual.screen import Screen

from edgellm.system.folders import config_file, log_file
from tui.core.controller import ChatController

VIEWS = ("models", "settings", "inspector", "log", "help")


def view(name: str, desk: ChatController) -> Screen[Any]:
    """The screen of one of these names."""
    match name:
        case "models":
            from tui.models.screen import ModelsScreen

            return ModelsScreen(None if desk.refused else desk.model)
        case "settings":
            from tui.views.settings import SettingsScreen

            return SettingsScreen(desk)
        case "inspector":
            from tui.views.inspector import InspectorScreen

            return InspectorScreen(desk)
        case "log":
            from tui.views.log import LogScreen

            return LogScreen(log_file())
    from tui.views.help import HelpScreen
    from tui.views.keymap import read_keys

    return HelpScreen(read_keys(config_file())[0])
