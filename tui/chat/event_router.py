"""Passes the events of the controller and of the worker to the parts of the screen."""

from tui.chat.attachment_check import AttachmentCheck
from tui.chat.call_question import CallQuestion
from tui.chat.conversation_view import ConversationView
from tui.chat.frontend import ScreenFrontend
from tui.chat.notifier import Notifier
from tui.chat.send_queue import SendQueue
from tui.chat.sidebar_actions import SidebarActions
from tui.composer import Composer
from tui.core.activity import Phase
from tui.core.controller import ChatController
from tui.core.events import (
    AttachmentCounted,
    CallsChanged,
    ChatsChanged,
    Event,
    ModelFailed,
    ModelOpened,
    Notice,
    PathChanged,
    ReplyEnded,
    SettingsChanged,
)


class EventRouter:
    """Shows each event after the controller has taken it."""

    def __init__(
        self,
        controller: ChatController,
        composer: Composer,
        question: CallQuestion,
        view: ConversationView,
        sidebar: SidebarActions,
        frontend: ScreenFrontend,
        queue: SendQueue,
        attachments: AttachmentCheck,
        notifier: Notifier,
    ) -> None:
        self._controller, self._composer, self._view, self._sidebar = controller, composer, view, sidebar
        self._question = question
        self._frontend, self._queue, self._attachments, self._notifier = frontend, queue, attachments, notifier

    def show(self, event: Event) -> None:
        """Show an event, and refresh the figures and the hint in the empty input box."""
        if isinstance(event, ModelOpened | ModelFailed):
            self._controller.model_names.refresh()
        self._route(event)
        self._composer.form.set_placeholder(placeholder(self._controller))
        self._view.refresh()

    def _route(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._notifier.say(event.text, event.severity)
        elif isinstance(event, PathChanged | SettingsChanged | CallsChanged):
            # Waiting messages do not belong to another path, and no reply follows calls whose results are not stored.
            if not self._controller.replies.busy:
                self._composer.queue.take_back()
            self._show_path()
            self._attachments.check()
        elif isinstance(event, ChatsChanged):
            self._sidebar.refresh()
        elif isinstance(event, ModelFailed):
            self._choose_another(event)
        elif isinstance(event, ReplyEnded):
            self._queue.on_reply_ended(event)
        elif isinstance(event, ModelOpened):
            self._attachments.count_all()
        elif isinstance(event, AttachmentCounted):
            self._attachments.on_counted(event)

    def _choose_another(self, event: ModelFailed) -> None:
        """Show the list of models if it has one to choose. Not while the user types: the keys would go to the list."""
        has_others = event.needs_choice or not self._controller.model.server
        if has_others and not (event.previous_open or event.needs_setting or self._composer.unsent):
            self._frontend.show("models")

    def _show_path(self) -> None:
        """Show the messages, and the question about a call, if there is one on this path."""
        self._view.show()
        self._question.show()


def placeholder(controller: ChatController) -> str:
    """The hint in the empty input box."""
    if controller.model.opened:
        return "Say something, or / for commands"
    if controller.status.activity().phase is Phase.LOADING:
        if controller.replies.running is not None:
            return "The reply comes as soon as the model is loaded"
        return "Type while the model loads: it is sent when that is ready"
    return "No model is open; F3 shows them"
