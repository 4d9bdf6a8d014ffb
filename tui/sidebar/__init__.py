"""The list of chats beside the conversation: sidebar is the widget, row the text of one chat."""

from tui.sidebar.sidebar import Sidebar

__all__ = ["Sidebar"]
