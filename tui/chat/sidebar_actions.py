"""The list of chats beside the conversation: shows it, and does what the user asks for in it."""

from tui.chat.conversation_view import ConversationView
from tui.chat.draft_keeper import DraftKeeper
from tui.chat.notifier import Notifier
from tui.composer import Composer
from tui.core.controller import ChatController
from tui.instruments import Panel
from tui.sidebar import Sidebar

_WIDTH_FOR_ALL = 110
"""Columns. On a narrower screen the list of chats and the panel are never shown together."""


class SidebarActions:
    """Does what the sidebar's messages ask, through `controller.chats`."""

    def __init__(
        self,
        controller: ChatController,
        sidebar: Sidebar,
        panel: Panel,
        composer: Composer,
        view: ConversationView,
        drafts: DraftKeeper,
        notifier: Notifier,
    ) -> None:
        self._chats, self._conversation = controller.chats, controller.conversation
        self._sidebar, self._panel, self._composer = sidebar, panel, composer
        self._view, self._drafts, self._notifier = view, drafts, notifier
        self._words = ""
        self._deleted: list[int] = []

    @property
    def _is_narrow(self) -> bool:
        return self._sidebar.screen.size.width < _WIDTH_FOR_ALL

    def toggle(self) -> None:
        """Show the list with the cursor in its search box, or hide it."""
        if self._sidebar.display:
            self.hide()
        else:
            self.show()

    def show(self) -> None:
        """Show the list, with the cursor in its search box."""
        self._sidebar.display = True
        if self._is_narrow:
            self._panel.remove_class("shown")
        self.refresh()
        self._sidebar.search()

    def hide(self) -> None:
        """Hide the list, and put the cursor into the input box."""
        self._sidebar.display = False
        self._composer.focus()

    def toggle_panel(self) -> None:
        """Show or hide the panel of figures."""
        shown = self._panel.toggle_class("shown").has_class("shown")
        if shown and self._is_narrow:
            self.hide()

    def refresh(self) -> None:
        """Show the chats as they are now, if the list is visible."""
        if self._sidebar.display:
            self._notifier.attempt(
                lambda: self._sidebar.show(self._chats.list(self._words), self._conversation.chat.id)
            )

    def search(self, words: str) -> None:
        """Show the chats with all the words."""
        self._words = words
        self.refresh()

    def open(self, chat: int, hit: int | None) -> None:
        """Open a chat, at the message that was found in it."""
        self._drafts.switch(lambda: self._chats.open(chat, hit))
        if hit is not None:
            self._view.point_at(hit, self._words)
        if self._is_narrow:
            self.hide()
        self._composer.focus()

    def rename(self, chat: int, title: str) -> None:
        """Give a chat another title."""
        self._notifier.attempt(lambda: self._chats.rename(chat, title))

    def delete(self, chat: int) -> None:
        """Delete a chat."""

        def delete() -> None:
            self._chats.delete(chat)
            self._deleted.append(chat)
            self._notifier.say("deleted; Ctrl+Z brings it back")

        self._drafts.switch(delete)

    def undelete(self) -> None:
        """Bring back the chat that was deleted last."""
        if self._deleted and self._notifier.attempt(lambda: self._chats.undelete(self._deleted[-1])):
            self._deleted.pop()
