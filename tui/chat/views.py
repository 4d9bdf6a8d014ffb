"""The screens that open over the conversation. Their modules are imported when they are first opened."""

from typing import Any

from textual.screen import Screen

from edgellm.system.folders import config_file, log_file
from tui.core.controller import ChatController

VIEWS = ("models", "settings", "inspector", "log", "help")


def view(name: str, controller: ChatController) -> Screen[Any]:
    """A new screen, by one of the names in VIEWS."""
    match name:
        case "models":
            from tui.models.screen import ModelsScreen
            from tui.models.source import of_server

            model, backend = controller.model, controller.worker.backend
            if model.server:
                current = (model.path or "").removeprefix(backend.reference(""))
                return ModelsScreen(current, of_server(model.server, backend.names))
            return ModelsScreen(None if model.error else model.name)
        case "settings":
            from tui.views.settings import SettingsScreen

            return SettingsScreen(controller)
        case "inspector":
            from tui.views.inspector import InspectorScreen

            return InspectorScreen(controller)
        case "log":
            from tui.views.log import LogScreen

            return LogScreen(log_file())
    from tui.views.help import HelpScreen
    from tui.views.keymap import read_keys

    return HelpScreen(read_keys(config_file())[0])
