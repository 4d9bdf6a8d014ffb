"""Runs the calls of tools in replies, each after the user agreed, and has the model go on with the results."""

from collections import deque
from collections.abc import Callable
from itertools import takewhile

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.tools.calls import REFUSED, ToolCall
from tui.core.call_runner import CallRunner
from tui.core.call_texts import what_runs
from tui.core.conversation import Conversation
from tui.core.events import CallEnded, CallsChanged, Emit, Notice, ResultAdded
from tui.core.session_tools import SessionTools
from tui.core.store import Store
from tui.core.tool_question import Answer, Question
from tui.core.tree import Message

MAX_STEPS = 16
"""Replies with calls to one message of the user."""
_TOO_MANY = f"{MAX_STEPS} replies to this message called tools; the last calls do not run: send a message to go on"


class ToolRuns:
    """The calls of one reply, one after the other; their results become messages after it.

    `question` is what the user is asked now. `go_on` requests the reply that follows, given the id of the last result.
    Calls belong to the path that was shown when they began: where another one is shown, they wait.
    """

    def __init__(
        self,
        conversation: Conversation,
        tools: SessionTools,
        store: Store,
        emit: Emit,
        go_on: Callable[[int], None],
    ) -> None:
        self._conversation, self._tools, self._store, self._emit = conversation, tools, store, emit
        self._go_on = go_on
        self._waiting: deque[ToolCall] = deque()
        self._last = 0  # the id of the reply, or of the result before the first of `_waiting`
        self._question: Question | None = None
        self._runner = CallRunner(tools.cancelled, emit)

    @property
    def is_active(self) -> bool:
        """Whether a call of the path that is shown asks or runs."""
        return bool(self._waiting) and self._conversation.leaf == self._last

    @property
    def question(self) -> Question | None:
        """The question to the user, if there is one on the path that is shown."""
        return self._question if self.is_active else None

    @property
    def is_running(self) -> bool:
        """Whether a call runs; CallEnded follows."""
        return bool(self._waiting) and self._question is None

    @property
    def current(self) -> ToolCall | None:
        """The call that asks or runs, on the path that is shown."""
        return self._waiting[0] if self.is_active else None

    def is_waiting(self, call: ToolCall) -> bool:
        """Whether a call of the path that is shown asks, runs, or comes after one that does."""
        return self.is_active and any(each is call for each in self._waiting)

    def begin(self, reply: Message) -> None:
        """Begin with the calls of a reply that has ended, unless another path is shown or there were MAX_STEPS."""
        if reply.id != self._conversation.leaf:
            return
        if self._steps() > MAX_STEPS:
            self._emit(Notice(_TOO_MANY, "error"))
            return
        self._last, self._waiting = reply.id, deque(reply.tool_calls)
        self._next()

    def _steps(self) -> int:
        """The replies with calls since the last message of the user."""
        turn = takewhile(lambda message: message.role != "user", reversed(self._conversation.path))
        return sum(bool(message.tool_calls) for message in turn)

    def _next(self) -> None:
        """Go to the first call that asks or runs; behind the last one have the model go on."""
        self._question = None
        while self._waiting and (problem := self._ask_or_run(self._waiting[0])):
            if not self._add_result(problem):
                return
        if not self._waiting:
            self._go_on(self._last)
        self._emit(CallsChanged())

    def _ask_or_run(self, call: ToolCall) -> str:
        """Ask about a call, or run it. Returns the result of one that can do neither, else an empty text."""
        if not (tool := self._tools.tools.get(call.name)):
            return f"error: there is no tool {printable(call.name)} now"
        try:
            question = Question(call, tool, what_runs(tool, call))
        except EdgeLLMError as error:  # the model gave arguments that the command does not take
            return f"error: {error}"
        if call.name in self._tools.allowed:
            self._runner.start(tool, call)
        else:
            self._question = question
        return ""

    def answer(self, question: Question, answer: Answer) -> None:
        """Take the user's answer. It does nothing if that question is not asked any more.

        What was shown runs, or nothing: a tool that /tools replaced meanwhile is refused.
        """
        if question is not self.question:
            return
        if answer is Answer.REFUSE or self._tools.tools.get(question.call.name) is not question.tool:
            self._end(REFUSED)
            return
        if answer is Answer.ALWAYS:
            self._tools.allowed.add(question.call.name)
        self._question = None
        self._runner.start(question.tool, question.call)
        self._emit(CallsChanged())

    def on_ended(self, event: CallEnded) -> None:
        """Take the result of a run, unless it was stopped."""
        if self._waiting and self._runner.has(event):
            self._end(event.result)

    def _end(self, result: str) -> None:
        if self._add_result(result):
            self._next()

    def _add_result(self, result: str) -> bool:
        """Store the result of the first call. Returns whether to go on: not where another path is shown by now."""
        shown = self.is_active
        try:
            message = self._store.add_result(self._conversation.chat.id, self._last, self._waiting[0], result)
        except EdgeLLMError as error:
            self._emit(Notice(str(error), "error"))
            self.stop()
            return False
        self._conversation.chat.tree.put(message)
        if not shown:
            self.stop()
            return False
        self._emit(ResultAdded(self._waiting.popleft(), result))
        self._last = message.id
        self._conversation.show(message.id)
        return True

    def stop(self) -> None:
        """End the call that runs, and take the question back. Calls without a result stay so."""
        if self._waiting:
            self._waiting.clear()
            self._question = None
            self._runner.stop()
            self._emit(CallsChanged())

    def close(self) -> None:
        """End the call that runs, and wait for its end."""
        self.stop()
        self._runner.close()
