"""Chat templates: messages to the text that a model was trained on."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable
from edgellm.system.text_input import decode_utf8
from edgellm.text.json_values import json_value
from edgellm.text.rendered import Rendered
from edgellm.text.rendering.renderer import RefusedError, renderer
from edgellm.text.surrogates import without_surrogates

T = TypeVar("T")
Message = Mapping[str, Any]
_FOLDER = Path(__file__).with_name("templates")
_LONGEST_SOURCE = 1 << 18


def _built_in() -> dict[str, Path]:
    """The files of the built-in templates, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.jinja"))}


def built_in_names() -> list[str]:
    """The names of the built-in templates."""
    return list(_built_in())


def template_source(name_or_path: str) -> str:
    """The Jinja2 source of the built-in template of that name, or else of the file at that path.

    Raises OptionError, which lists the names, if there is neither, or if the file is no UTF-8 text.
    """
    known = _built_in()
    try:
        return decode_utf8(known.get(name_or_path, Path(name_or_path)).read_bytes())
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text at byte {error.start}"
    except (OSError, ValueError) as error:
        problem = f"is no built-in template and cannot be read: {getattr(error, 'strerror', None) or error}"
    names = ", ".join(known)
    raise OptionError(f"--template: {printable(name_or_path, 400)} {problem}; give a file or one of: {names}")


def named_source(name_or_source: str) -> str:
    """The Jinja2 source of the built-in template of that name; what has a brace in it is source itself.

    Raises OptionError, which lists the names, for another name: what is the same text for all messages is a slip.
    """
    if "{" in name_or_source:
        return name_or_source
    if name_or_source not in (known := _built_in()):
        named, names = printable(name_or_source, 60), ", ".join(known)
        raise OptionError(f"template {named} is no Jinja2 source, nor the name of one that is built in: {names}")
    return template_source(name_or_source)


class ChatTemplate:
    """A Jinja2 chat template, compiled; `bos` and `eos` are what it knows as bos_token and eos_token.

    Raises EdgeLLMError, in one line, for a template that is not valid.
    """

    def __init__(self, source: str, bos: str, eos: str) -> None:
        self._own = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}
        self._stopped = Event()
        if len(source) > _LONGEST_SOURCE:
            raise EdgeLLMError("the chat template is too long; give another as --template NAME|FILE")
        self._source = without_surrogates(source)
        self.names: frozenset[str] = self._ask(lambda reply: frozenset(map(str, reply["names"])))
        """The names that it may look up in what it is given, such as `messages` and `enable_thinking`."""

    def render(self, messages: Sequence[Message], /, add_generation_prompt: bool = True, **args: Any) -> Rendered:
        """The prompt as text. `args` are further names for the template, such as `tools`: what JSON can hold.

        Raises OptionError for other arguments, and EdgeLLMError when the template refuses the messages, fails, or takes
        too much time or memory.
        """
        args = json_value({"add_generation_prompt": add_generation_prompt, **args}, "template_args")
        return self._ask(Rendered.from_reply, own=self._own, args=args, messages=json_value(messages, "messages"))

    def stop(self) -> None:
        """Have what is rendered now, and what is to be until `resume`, fail at once; from any thread."""
        renderer.stop(self._stopped)

    def resume(self) -> None:
        """Forget an earlier `stop`."""
        self._stopped.clear()

    def _ask(self, read: Callable[[Any], T], **request: Any) -> T:
        try:
            if not self._stopped.is_set():
                return renderer.ask({"source": self._source, **request}, self._stopped, read)
        except RefusedError as error:
            if not self._stopped.is_set():
                raise _refused(error.how, error.problem) from None
        raise EdgeLLMError("the chat template was stopped before it had made the prompt")


def check_messages(messages: Sequence[Message]) -> None:
    """Raises EdgeLLMError unless these are messages of text."""
    for number, message in enumerate(messages, 1):
        texts = [message.get(key) for key in ("role", "content")] if isinstance(message, Mapping) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise EdgeLLMError(f"message {number} must be a mapping with a text as role and one as content")


def _refused(how: str, problem: str) -> EdgeLLMError:
    told = printable(problem if problem.endswith("..") else problem.removesuffix("."), 300)
    return EdgeLLMError(f"the chat template {how}: {told}; choose another as --template NAME|FILE")
