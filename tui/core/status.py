"""What the instruments show of the open chat: activity, tokens, and messages outside the context."""

from dataclasses import replace
from itertools import takewhile

from edgellm.fmt import counted
from tui.core.activity import Activity
from tui.core.conversation import Conversation
from tui.core.current_model import CurrentModel
from tui.core.events import Inspected
from tui.core.past_stats import past_live
from tui.core.prompt_messages import prompt_messages, prompt_turns
from tui.core.token_count import TokenCount
from tui.core.tree import Message
from tui.core.worker import Worker


class ChatStatus:
    """Reads the state of the worker and of the conversation; changes neither."""

    def __init__(self, conversation: Conversation, tokens: TokenCount, model: CurrentModel, worker: Worker) -> None:
        self._conversation, self._tokens, self._model, self._worker = conversation, tokens, model, worker

    def activity(self) -> Activity:
        """What the model does now. The figures are those of the last reply that is shown."""
        overflow, uses = self._model.settings.overflow, self._uses()
        activity = replace(self._worker.activity(), overflow=overflow, counted=self._tokens.tokens, uses=uses)
        path = self._conversation.path
        if activity.live and any(self._worker.written(message.id) for message in reversed(path)):
            return activity
        last = self._conversation.last_reply()
        tokens, messages = (last.dropped_tokens, last.dropped_messages) if last else (0, 0)
        if last and self._fits_now(last, activity.context):
            activity, tokens, messages = replace(activity, counted=self._tokens.tokens + tokens), 0, 0
        live = past_live(last.stats, min(activity.counted, activity.context)) if last and last.stats else None
        return replace(activity, live=live, dropped_tokens=tokens, dropped_messages=messages)

    def _uses(self) -> str:
        """What the next reply follows or may call, in words."""
        options = self._model.reply_options()
        if "json_schema" in options:
            return "schema"
        return counted(len(tools), "tool") if (tools := options.get("tools")) else ""

    def _fits_now(self, reply: Message, context: int) -> bool:
        """Whether the context has grown since a reply, and now holds what that reply did not see."""
        before = (reply.stats or {}).get("ctx") or context
        return context > before and self._tokens.tokens + reply.dropped_tokens <= context

    def unseen(self) -> frozenset[int]:
        """The ids of the messages on the path that the last reply did not see, unless they fit now.

        Messages that got no reply are among them.
        """
        if not (reply := self._conversation.last_reply()):
            return frozenset()
        fits = self._fits_now(reply, self._worker.activity().context)
        dropped = 0 if fits else (self._worker.written(reply.id) or reply).dropped_messages
        turns = prompt_turns(self._conversation.chat, reply.parent)
        seen = {turn.source.id for turn in [t for t in turns if t.message["role"] != "system"][dropped:] if turn.source}
        earlier = takewhile(lambda message: message is not reply, self._conversation.path)
        return frozenset(message.id for message in earlier if message.role != "system" and message.id not in seen)

    def inspect(self) -> None:
        """Have the model render the prompt of its last reply, or of a reply to the last message. Inspected follows."""
        last_turn = [message.id for message in self._conversation.path if message.role != "assistant"][-1:]
        messages, options = prompt_messages(self._conversation.chat, *last_turn), self._model.reply_options()
        self._worker.ask(lambda model: Inspected(model.inspect(messages, options)))

    def too_long(self, tokens: int) -> str:
        """Why a text of `tokens` tokens cannot be sent here, and what to do; empty if it can, or without a model."""
        activity = self.activity()
        context, left = activity.context, activity.context - activity.used
        if context and tokens >= context:
            return f"{tokens:,} tokens, and the context has {context:,}; send a part, or /set ctx if the model has more"
        if context and tokens >= left and activity.overflow == "stop":
            advice = "/clear begins a new chat, /set overflow drop leaves out the oldest turns"
            return f"{tokens:,} tokens, and {left:,} of the context are left; {advice}"
        return ""
