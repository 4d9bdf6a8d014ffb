"""Chat templates: messages in, the text of a prompt out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable
from edgellm.system.text_input import decode_utf8
from edgellm.text.conversation import Message
from edgellm.text.json_values import json_value
from edgellm.text.rendered_prompt import RenderedPrompt
from edgellm.text.rendering.renderer import RefusedError, renderer
from edgellm.text.reply_format import HARMONY, reply_format
from edgellm.text.thinking_tags import thinking_tags
from edgellm.text.thought import with_thinking
from edgellm.text.utf8 import replace_surrogates

T = TypeVar("T")
_FOLDER = Path(__file__).with_name("templates")
_MAX_SOURCE_LENGTH = 1 << 18
_REASONING = ("reasoning_content", "thinking", "reasoning")


def _built_in() -> dict[str, Path]:
    """The files of the built-in templates, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.jinja"))}


def built_in_names() -> list[str]:
    """The names of the built-in templates."""
    return list(_built_in())


def template_source(name_or_path: str) -> str:
    """The Jinja2 source of the built-in template of that name, or else of the file at that path.

    Raises OptionError, which lists the names, if neither exists, or if the file is not UTF-8 text.
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
    """The Jinja2 source of the built-in template of that name; a text with a brace is the source itself.

    Raises OptionError, which lists the names, for another name: as source it would give the same text for all messages.
    """
    if "{" in name_or_source:
        return name_or_source
    if name_or_source not in (known := _built_in()):
        named, names = printable(name_or_source, 60), ", ".join(known)
        raise OptionError(f"template {named} is no Jinja2 source, nor the name of one that is built in: {names}")
    return template_source(name_or_source)


def template_title(given: str | None, model: str) -> str:
    """Words for the template in use: that of the model, or the `given` one, as the name or the source."""
    if given is None:
        return f"the chat template of {model}"
    name = next((name for name in _built_in() if given in (name, template_source(name))), None)
    return f"the built-in chat template {name}" if name else "the given chat template"


class ChatTemplate:
    """A Jinja2 chat template. `bos` and `eos` are the values of bos_token and eos_token in it.

    With a `reply_format`, the thinking of replies is given to it apart from their answers. `thinking_tags` are those
    between which replies think, None for harmony, and for models that do not think.

    Raises EdgeLLMError, in one line, if the template is not valid.
    """

    def __init__(self, source: str, bos: str, eos: str) -> None:
        self._own = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}
        self._stopped = Event()
        if len(source) > _MAX_SOURCE_LENGTH:
            raise EdgeLLMError("the chat template is too long; give another as --template NAME|FILE")
        self._source, self.reply_format = replace_surrogates(source), reply_format(source)
        self.thinking_tags = None if self.reply_format is HARMONY else thinking_tags(source)
        self.names: frozenset[str] = self._ask(lambda reply: frozenset(map(str, reply["names"])))
        """The variables that the template reads, such as `messages` and `enable_thinking`."""

    def render(self, messages: Sequence[Message], /, add_generation_prompt: bool = True, **args: Any) -> RenderedPrompt:
        """The rendered prompt. `args` are further variables, such as `tools`, with values that JSON can represent.

        Raises OptionError for other values, and EdgeLLMError if the template rejects the messages, fails, or takes too
        much time or memory.
        """
        args = json_value({"add_generation_prompt": add_generation_prompt, **args}, "template_args")
        conversation = [_completed(message) for message in json_value(messages, "messages")]
        if form := self.reply_format:
            conversation = [
                with_thinking(each, form.thinking_field) if isinstance(each, dict) else each for each in conversation
            ]
        return self._ask(RenderedPrompt.from_reply, own=self._own, args=args, messages=conversation)

    def stop(self) -> None:
        """Make the current rendering, and all until `resume`, fail at once. Any thread may call it."""
        renderer.stop(self._stopped)

    def resume(self) -> None:
        """Undo an earlier `stop`."""
        self._stopped.clear()

    def _ask(self, read: Callable[[Any], T], **request: Any) -> T:
        try:
            if not self._stopped.is_set():
                return renderer.ask({"source": self._source, **request}, self._stopped, read)
        except RefusedError as error:
            if not self._stopped.is_set():
                raise _refused(error.how, error.problem) from None
        raise EdgeLLMError("the chat template was stopped before it had made the prompt")


def _completed(message: Any) -> Any:
    """A message as transformers gives it to a template: without null entries, and with its reasoning, which programs
    name differently, as `reasoning_content`; templates of gpt-oss read `thinking`."""
    if not isinstance(message, dict):
        return message
    message = {key: value for key, value in message.items() if value is not None}
    found = [message[name] for name in _REASONING if name in message]
    return {"thinking": found[0], **message, "reasoning_content": found[0]} if found else message


def _refused(how: str, problem: str) -> EdgeLLMError:
    reason = printable(problem if problem.endswith("..") else problem.removesuffix("."), 300)
    return EdgeLLMError(f"the chat template {how}: {reason}; choose another as --template NAME|FILE")
