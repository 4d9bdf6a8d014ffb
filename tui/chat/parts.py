"""The widgets of the chat screen, and the parts that act on them."""

from textual.screen import Screen

from tui.chat.attachment_check import AttachmentCheck
from tui.chat.call_question import CallQuestion
from tui.chat.conversation_view import ConversationView
from tui.chat.draft_keeper import DraftKeeper
from tui.chat.event_router import EventRouter, placeholder
from tui.chat.frontend import ScreenFrontend
from tui.chat.message_browser import MessageBrowser
from tui.chat.notifier import Notifier
from tui.chat.send_queue import SendQueue
from tui.chat.sidebar_actions import SidebarActions
from tui.chat.welcome import Welcome
from tui.composer import Composer
from tui.core.controller import ChatController
from tui.instruments import Panel, StatusLine
from tui.sidebar import Sidebar
from tui.transcript import Transcript


class ChatWidgets:
    """The widgets that the parts share."""

    def __init__(self, controller: ChatController) -> None:
        self.transcript, self.welcome = Transcript(), Welcome()
        self.question = CallQuestion(controller.calls)
        self.composer = Composer(placeholder(controller))
        self.sidebar = Sidebar()
        self.status_line, self.panel = StatusLine(), Panel()


class ChatParts:
    """Builds the parts in the order in which they depend on each other."""

    def __init__(self, screen: Screen[None], controller: ChatController, widgets: ChatWidgets) -> None:
        w = widgets
        self.notifier = Notifier(screen)
        self.drafts = DraftKeeper(controller.conversation, w.composer, self.notifier)
        self.view = ConversationView(controller, w.transcript, w.welcome, w.status_line, w.panel)
        self.sidebar = SidebarActions(controller, w.sidebar, w.panel, w.composer, self.view, self.drafts, self.notifier)
        self.frontend = ScreenFrontend(
            controller, w.composer, w.panel, self.view, self.sidebar, self.drafts, self.notifier
        )
        self.browser = MessageBrowser(controller, w.transcript, w.composer, self.frontend, self.notifier)
        self.queue = SendQueue(controller, w.composer, self.view, self.drafts, self.notifier)
        self.attachments = AttachmentCheck(controller, w.composer, self.notifier)
        self.events = EventRouter(
            controller,
            w.composer,
            w.question,
            self.view,
            self.sidebar,
            self.frontend,
            self.queue,
            self.attachments,
            self.notifier,
        )
