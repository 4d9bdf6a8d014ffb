"""Stores and restores what is typed in the input box."""

from collections.abc import Callable, Sequence

from edgellm.errors import EdgeLLMError
from tui.chat.notifier import Notifier
from tui.composer import Attachment, Composer
from tui.core.conversation import Conversation


class DraftKeeper:
    """Keeps the draft of each chat with its chat."""

    def __init__(self, conversation: Conversation, composer: Composer, notifier: Notifier) -> None:
        self._conversation, self._composer, self._notifier = conversation, composer, notifier
        self._error = ""
        self._warned = False

    def load(self) -> None:
        """Put the draft of the open chat into the box, in place of what is there."""
        draft = self._conversation.draft()
        self._composer.begin(draft.text, [Attachment(*file) for file in draft.files])

    def save(self) -> bool:
        """Store what is in the box. Returns False, after a notice, if the store fails."""
        return self._notifier.attempt(lambda: self._save(self._composer.unsent, self._composer.unsent_files))

    def save_change(self, text: str, files: Sequence[Attachment]) -> None:
        """Store a draft after a change. The same error is shown once, not for every key."""
        error = ""
        try:
            self._save(text, files)
        except EdgeLLMError as failure:
            error = str(failure)
        if error not in ("", self._error):
            self._notifier.say(error, "error")
        self._error = error

    def _save(self, text: str, files: Sequence[Attachment]) -> None:
        self._conversation.save_draft(text, tuple((file.name, file.text) for file in files))

    def switch(self, action: Callable[[], object]) -> bool:
        """Call an action that may open another chat. If it does, the draft of that chat replaces the one in the box.

        Returns False, after a notice, if the action raised EdgeLLMError.
        """
        left = self._conversation.chat.id
        self.save()
        done = self._notifier.attempt(action)
        if self._conversation.chat.id != left:
            self.load()
        return done

    def clear(self) -> bool:
        """Take the text out of the box; the key Up brings it back. Returns False if the box is empty."""
        return self._composer.form.put_away()

    def may_leave(self) -> bool:
        """Store the draft before the program ends. If that fails, returns False once, after a warning."""
        if self.save() or not self._composer.unsent or self._warned:
            return True
        self._warned = True
        self._notifier.say(
            "the text in the input box would be lost: press the key again to leave all the same", "warning"
        )
        return False
