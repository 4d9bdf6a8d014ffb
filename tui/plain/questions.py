"""Asks before each call of a tool, line by line."""

from collections.abc import Callable

from tui.core.call_texts import summary
from tui.core.tool_question import Answer, Question
from tui.core.tool_runs import ToolRuns
from tui.plain.input import PlainInput

_ANSWERS = {
    "y": Answer.ONCE,
    "yes": Answer.ONCE,
    "a": Answer.ALWAYS,
    "always": Answer.ALWAYS,
    "n": Answer.REFUSE,
    "no": Answer.REFUSE,
    "": Answer.REFUSE,
}
_CHOICES = "run it? y: once, a: always in this session, n: no"


class CallQuestions:
    """Shows a question with `say`, and reads the answer from `source`.

    A line that is no answer refuses the call and is in `unread`: piped messages are written without knowing of calls.
    So do lines that were typed before the question, whatever they say; the input keeps these.
    """

    def __init__(self, calls: ToolRuns, source: PlainInput, say: Callable[[str], None]) -> None:
        self._calls, self._input, self._say = calls, source, say
        self.unread: list[str] = []

    def ask(self, question: Question) -> None:
        """Ask, and pass the answer on; the end of the input stops all calls. Raises KeyboardInterrupt for Ctrl-C."""
        is_early = bool(self.unread) or self._input.is_early()
        self._say(f"calls {summary(question.call)}, which runs\n{question.text}\n{_CHOICES}")
        line = None if is_early else self._input.read()
        if line is None and not is_early:
            self._calls.stop()
            self._say("the input ended at the question: the call did not run")
            return
        answer = _ANSWERS.get((line or "").strip().casefold())
        if answer is None and line:
            self.unread.append(line)
        self._calls.answer(question, answer or Answer.REFUSE)
