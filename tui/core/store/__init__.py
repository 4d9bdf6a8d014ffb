"""Conversations kept in SQLite: saved as they grow, searched, exported and imported."""

from tui.core.store.rows import Chat, ChatRow, Files
from tui.core.store.store import Store

__all__ = ["Chat", "ChatRow", "Files", "Store"]
