"""What is known of the conversation: what its model does, how many tokens it takes, and what does not fit."""

from dataclasses import replace
from itertools import takewhile

from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted
from tui.core.activity import Activity
from tui.core.backend import OpenModel
from tui.core.conversation import Conversation
from tui.core.events import AttachmentCounted, ConversationCounted, Event, Inspected, Notice, ReplyEnded
from tui.core.files import with_files
from tui.core.past_stats import context_used, past_live
from tui.core.tree import Message


class ChatStatus(Conversation):
    """The conversation, with what instruments show of it."""

    _counted = 0

    def reading(self) -> Activity:
        """What the model is doing now; the figures are those of what is shown, if it wrote in that last."""
        reading = replace(self.worker.reading(), overflow=self.tuning.overflow, counted=self._counted)
        if reading.live and any(self.worker.written(message.id) for message in reversed(self.path)):
            return reading
        last = self._last_reply()
        tokens, messages = (last.dropped_tokens, last.dropped_messages) if last else (0, 0)
        if last and self._has_room(last, reading.context):
            reading, tokens, messages = replace(reading, counted=self._counted + tokens), 0, 0
        live = past_live(last.stats, min(reading.counted, reading.context)) if last and last.stats else None
        return replace(reading, live=live, dropped_tokens=tokens, dropped_messages=messages)

    def _has_room(self, reply: Message, context: int) -> bool:
        """Whether the context has grown since the last reply, so that it holds also what that did not see."""
        before = (reply.stats or {}).get("ctx") or context
        return context > before and self._counted + reply.dropped_tokens <= context

    def unseen(self) -> frozenset[int]:
        """The messages on the path outside the window of the last reply, as far as none has more room now.

        Those that were never replied to are among them.
        """
        if not (reply := self._last_reply()):
            return frozenset()
        room = self._has_room(reply, self.worker.reading().context)
        dropped = 0 if room else (self.worker.written(reply.id) or reply).dropped_messages
        said = [message.id for message in self._turns(reply.parent) if message.role != "system"]
        seen = set(said[dropped:])
        earlier = takewhile(lambda message: message is not reply, self.path)
        return frozenset(message.id for message in earlier if message.role != "system" and message.id not in seen)

    def _last_reply(self) -> Message | None:
        return next((message for message in reversed(self.path) if message.role == "assistant"), None)

    def inspect(self) -> None:
        """Look at what the model got for its last reply, or would get for one now; Inspected follows."""
        asked = [message.id for message in self.path if message.role != "assistant"][-1:]
        messages, options = self.messages(*asked), self.tuning.for_replies()
        self.worker.ask(lambda model: Inspected(model.inspect(messages, options)))

    def count(self, text: str) -> None:
        """Count the tokens of a text, or of this conversation if it is empty; a Notice follows."""
        messages, options = self.messages(), self.tuning.for_replies()

        def told(model: OpenModel) -> Notice:
            n = model.count_text(text) if text else model.count(messages, options)
            return Notice(counted(n, "token") if text else f"{n:,} of {model.ctx:,} tokens of context")

        self.worker.ask(told)

    def weigh(self, name: str, text: str) -> None:
        """Count the tokens of a file that may go with a message, or of a text without a name; AttachmentCounted follows.

        Nothing does where no model is open.
        """
        sent = with_files("", [(name, text)]) if name else text
        if self.opened:
            self.worker.ask(lambda model: AttachmentCounted(name, text, model.count_text(sent)))

    def too_long(self, tokens: int) -> str:
        """Why texts of so many tokens cannot be sent here, and what to do; nothing if they can, or no model is open."""
        reading = self.reading()
        context, left = reading.context, reading.context - reading.used
        if context and tokens >= context:
            return f"{tokens:,} tokens, and the context has {context:,}; send a part, or /set ctx if the model has more"
        if context and tokens >= left and reading.overflow == "stop":
            advice = "/clear begins a new chat, /set overflow drop leaves out the oldest turns"
            return f"{tokens:,} tokens, and {left:,} of the context are left; {advice}"
        return ""

    def recount(self) -> None:
        """Find out the tokens of what is shown: as they are known of its last reply, if this model wrote that.

        Else they are counted, and ConversationCounted follows.
        """
        last = self.path[-1] if self.path else None
        if self.opened and last and last.stats and last.model == self.model:
            self._counted = context_used(last.stats)
        else:
            self._count_anew()

    def _count_anew(self) -> None:
        leaf, messages, options = self.chat.tree.leaf, self.messages(), self.tuning.for_replies()

        def told(model: OpenModel) -> Event:
            try:
                return ConversationCounted(leaf, model.count(messages, options))
            except EdgeLLMError:  # that a template cannot is told where it matters
                return ConversationCounted(leaf, 0)

        if messages and self.opened:
            self.worker.ask(told)
        else:
            self._counted = 0

    def note_figures(self, event: ReplyEnded) -> None:
        """Take note of the tokens that a reply had read and written."""
        if event.stats is None:
            self.recount()
        elif event.message == self.chat.tree.leaf:
            self._counted = context_used(event.stats)

    def note_count(self, event: ConversationCounted) -> None:
        """Take note of a count, unless something else is shown by now."""
        if event.leaf == self.chat.tree.leaf:
            last = self._last_reply()
            self._counted = event.tokens - (last.dropped_tokens if last else 0)
