"""Chats in SQLite: saved while they grow, searched, exported and imported."""

from tui.core.store.records import ChatRow, Files, SavedChat
from tui.core.store.store import Store

__all__ = ["ChatRow", "Files", "SavedChat", "Store"]
