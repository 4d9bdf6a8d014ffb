"""Checks whether attached files and pasted texts fit into the context."""

from collections.abc import Iterable

from tui.chat.notifier import Notifier
from tui.composer import Attachment, Composer
from tui.core.controller import ChatController
from tui.core.events import AttachmentCounted


class AttachmentCheck:
    """Has the tokens of attachments counted, and warns if they are too many."""

    def __init__(self, controller: ChatController, composer: Composer, notifier: Notifier) -> None:
        self._controller, self._composer, self._notifier = controller, composer, notifier

    def count_new(self) -> None:
        """Count the attachments that are not counted yet."""
        self._count(each for each in self._composer.form.attachments if each.tokens is None)
        self.check()

    def count_all(self) -> None:
        """Count all attachments, as another model has other tokens."""
        self._count(self._composer.form.attachments)

    def _count(self, attachments: Iterable[Attachment]) -> None:
        for each in attachments:
            self._controller.tokens.count_attachment(each.name, each.text)

    def on_counted(self, event: AttachmentCounted) -> None:
        """Show a count. A file that is larger than the whole context is detached."""
        self._composer.form.attachment_bar.set_tokens(event.text, event.tokens)
        status = self._controller.status
        if event.name and event.tokens >= status.activity().context:
            self._composer.form.attachment_bar.drop_text(event.text)
            self._notifier.say(f"{event.name} is not attached: {status.too_long(event.tokens)}", "warning")
        elif problem := self.check():
            self._notifier.say(problem, "warning")

    def check(self) -> str:
        """Mark the attachments as too long, or not. Returns the reason, or an empty text."""
        attachments = self._composer.form.attachments
        problem = self._controller.status.too_long(sum(each.tokens or 0 for each in attachments))
        self._composer.form.attachment_bar.warn(bool(problem))
        return problem and f"{', '.join(each.name or 'pasted text' for each in attachments)}: {problem}"
