"""Sends what the input box hands over, at once or after the running reply."""

from edgellm.errors import EdgeLLMError
from tui.chat.conversation_view import ConversationView
from tui.chat.draft_keeper import DraftKeeper
from tui.chat.notifier import Notifier
from tui.composer import Composer
from tui.composer.message_sent import MessageSent
from tui.core.controller import ChatController
from tui.core.events import ReplyEnded
from tui.core.files import with_files


class SendQueue:
    """The composer shows the messages that wait; this sends one after each reply that ends by itself."""

    def __init__(
        self,
        controller: ChatController,
        composer: Composer,
        view: ConversationView,
        drafts: DraftKeeper,
        notifier: Notifier,
    ) -> None:
        self._controller, self._composer = controller, composer
        self._view, self._drafts, self._notifier = view, drafts, notifier

    def add(self, message: MessageSent) -> None:
        """Send a message, or let it wait for the running reply. An edited message is sent at once."""
        if message.editing is None and (self._controller.replies.busy or self._composer.queue):
            self._composer.queue.push(message)
            self._drafts.save()
        else:
            self._composer.queue.take_back()  # an edit shows another path, where waiting messages do not belong
            self._send(message)

    def _send(self, message: MessageSent) -> None:
        text = with_files(message.text, ((file.name, file.text) for file in message.attachments))
        try:
            if message.editing is None:
                self._controller.sender.send(text)
            else:
                self._controller.sender.replace(message.editing, text)
        except EdgeLLMError as error:
            self._notifier.say(str(error), "error")
            self._composer.queue.take_back()
            self._composer.queue.give_back(message)
        self._drafts.save()

    def on_reply_ended(self, ended: ReplyEnded) -> None:
        """Send the next message; if the reply was cancelled or failed, put all back into the input box."""
        if self._composer.queue and not self._controller.replies.busy:
            is_shown = ended.message == self._controller.conversation.leaf
            if is_shown and ended.finish_reason not in ("cancelled", "error"):
                self._send(self._composer.queue.pop())
                self._view.keep_position()
            else:
                self._composer.queue.take_back()
