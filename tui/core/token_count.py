"""Counts the tokens of the open chat and of texts that may be sent in it."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted
from tui.core.backend import OpenModel
from tui.core.conversation import Conversation
from tui.core.current_model import CurrentModel
from tui.core.events import AttachmentCounted, ConversationCounted, Event, Notice, ReplyEnded
from tui.core.files import with_files
from tui.core.past_stats import context_used
from tui.core.prompt_messages import prompt_messages
from tui.core.worker import Worker


class TokenCount:
    """`tokens` is the number of tokens of the path that is shown, without those that its last reply did not see.

    Counting takes the model, so that it happens in the worker's thread; an event brings the result.
    """

    def __init__(self, conversation: Conversation, model: CurrentModel, worker: Worker) -> None:
        self._conversation, self._model, self._worker = conversation, model, worker
        self.tokens = 0

    def refresh(self) -> None:
        """Count the path again, or take the count that is stored with its last reply if this model wrote that."""
        path, opened = self._conversation.path, self._model.opened
        last = path[-1] if path else None
        if opened and last and last.stats and last.model == self._model.name:
            self.tokens = context_used(last.stats)
        else:
            self.recount()

    def recount(self) -> None:
        """Count the path; ConversationCounted follows.

        Without a model or messages the count is 0. With a model that does not count it is that of the last reply.
        """
        leaf, messages = self._conversation.leaf, prompt_messages(self._conversation.chat)
        options = self._model.reply_options()

        def count(model: OpenModel) -> Event:
            try:
                return ConversationCounted(leaf, model.count(messages, options))
            except EdgeLLMError:  # an error of the template is shown where a reply needs it
                return ConversationCounted(leaf, 0)

        opened = self._model.opened
        if messages and opened and opened.counts:
            self._worker.ask(count)
        else:
            last = self._conversation.last_reply() if messages and opened else None
            self.tokens = context_used(last.stats) if last and last.stats else 0

    def report(self, text: str) -> None:
        """Count a text, or the conversation if `text` is empty. A Notice with the count follows."""
        messages = prompt_messages(self._conversation.chat)
        options = self._model.reply_options()

        def count(model: OpenModel) -> Notice:
            if text:
                return Notice(counted(model.count_text(text), "token"))
            return Notice(f"{model.count(messages, options):,} of {model.ctx:,} tokens of context")

        self._worker.ask(count)

    def count_attachment(self, name: str, text: str) -> None:
        """Count a file, or a pasted text if `name` is empty. AttachmentCounted follows if an open model counts."""
        sent = with_files("", [(name, text)]) if name else text
        if self._model.opened and self._model.opened.counts:
            self._worker.ask(lambda model: AttachmentCounted(name, text, model.count_text(sent)))

    def on_counted(self, event: ConversationCounted) -> None:
        """Take a count, unless another path is shown by now."""
        if event.leaf == self._conversation.leaf:
            last = self._conversation.last_reply()
            self.tokens = event.tokens - (last.dropped_tokens if last else 0)

    def on_reply_ended(self, event: ReplyEnded) -> None:
        """Take the count that came with a reply."""
        if event.stats is None:
            self.refresh()
        elif event.message == self._conversation.leaf:
            self.tokens = context_used(event.stats)
