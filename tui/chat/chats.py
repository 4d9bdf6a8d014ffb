"""The list of chats beside the conversation, and what a person does in it."""

from textual import on

from tui.chat.front import FrontScreen
from tui.composer import Composer
from tui.core.controller import ChatController
from tui.instruments import Panel
from tui.sidebar import Sidebar

ROOM_FOR_ALL = 110
"""Columns, below which the list of chats and the figures take turns, and a chat that is opened has all the room."""


class ChatsScreen(FrontScreen):
    """A screen with a list of chats."""

    def __init__(self, desk: ChatController) -> None:
        super().__init__(desk)
        self._searched = ""
        self._deleted: list[int] = []

    def action_chats(self) -> None:
        """Show the list of chats and look for one, or hide it."""
        if self.query_one(Sidebar).display:
            self.hide_sidebar()
        else:
            self.show_sidebar()

    def show_sidebar(self) -> None:
        """Show the list of chats and look for one."""
        sidebar = self.query_one(Sidebar)
        sidebar.display = True
        if self.size.width < ROOM_FOR_ALL:
            self.query_one(Panel).remove_class("shown")
        self.show_chats()
        sidebar.search()

    @on(Sidebar.Leave)
    def hide_sidebar(self) -> None:
        """Give its room to the conversation."""
        self.query_one(Sidebar).display = False
        self.query_one(Composer).focus()

    def show_chats(self) -> None:
        """Show the chats as they are now, if the list is there."""
        sidebar = self.query_one(Sidebar)
        if sidebar.display:
            self.attempt(lambda: sidebar.show(self.desk.chats(self._searched), self.desk.chat.id))

    @on(Sidebar.Search)
    def _search(self, message: Sidebar.Search) -> None:
        self._searched = message.words
        self.show_chats()

    @on(Sidebar.Open)
    def _open(self, message: Sidebar.Open) -> None:
        self.move(lambda: self.desk.open_chat(message.chat, message.hit))
        if message.hit is not None:
            self.point_at(message.hit, self._searched)
        if self.size.width < ROOM_FOR_ALL:
            self.hide_sidebar()
        self.query_one(Composer).focus()

    @on(Sidebar.Rename)
    def _rename(self, message: Sidebar.Rename) -> None:
        self.attempt(lambda: self.desk.rename_chat(message.chat, message.title))

    @on(Sidebar.Delete)
    def _delete(self, message: Sidebar.Delete) -> None:
        def delete() -> None:
            self.desk.delete_chat(message.chat)
            self._deleted.append(message.chat)
            self.say("deleted; Ctrl+Z brings it back")

        self.move(delete)

    @on(Sidebar.Undo)
    def _undo(self) -> None:
        if self._deleted and self.attempt(lambda: self.desk.undelete_chat(self._deleted[-1])):
            self._deleted.pop()
