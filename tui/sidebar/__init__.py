"""The list of chats beside the conversation."""

from tui.sidebar.sidebar import Sidebar

__all__ = ["Sidebar"]
