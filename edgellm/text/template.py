"""Chat templates: messages to the prompt a model was trained on, and from there to ids."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

from jinja2 import TemplateSyntaxError, meta

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.gguf.printable import printable
from edgellm.text.sandbox import Sandbox
from edgellm.text.tokenizer import Tokenizer, without_surrogates

Message = Mapping[str, Any]
_FOLDER = Path(__file__).with_name("templates")
_LONGEST_SOURCE = 1 << 18
_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))


def template_source(name_or_path: str) -> str:
    """The Jinja2 source of the built-in template of that name, or else of the file at that path.

    Raises OptionError, which lists the names, if there is neither, or if the file is no UTF-8 text.
    """
    names = ", ".join(sorted(path.stem for path in _FOLDER.glob("*.jinja")))
    path = _FOLDER / f"{name_or_path}.jinja" if name_or_path in names.split(", ") else Path(name_or_path)
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text at byte {error.start}"
    except (OSError, ValueError) as error:
        problem = f"is no built-in template and cannot be read: {getattr(error, 'strerror', None) or error}"
    raise OptionError(f"--template: {printable(name_or_path, 400)} {problem}; give a file or one of: {names}")


class ChatTemplate:
    """A Jinja2 chat template, compiled; `bos` and `eos` are what it knows as bos_token and eos_token.

    Raises EdgeLLMError, in one line, for a template that is not valid.
    """

    def __init__(self, source: str, bos: str, eos: str) -> None:
        self.source = source
        self._names = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}
        self._sandbox, self._lock = Sandbox(), Lock()
        if len(source) > _LONGEST_SOURCE:
            raise EdgeLLMError("the chat template is too long; give another as --template NAME|FILE")
        try:
            self._template = self._sandbox.from_string(source)
        except TemplateSyntaxError as error:
            raise _refused("is not valid", f"line {error.lineno}: {error.message}") from None
        except Exception as error:  # Python, too, refuses to compile some templates, in ways of its own
            raise _refused("is not valid", f"{type(error).__name__}: {error}") from None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that it may look up in what it is given, such as `messages` and `enable_thinking`."""
        return frozenset(meta.find_undeclared_variables(self._sandbox.parse(self.source)))

    def render(self, messages: Sequence[Message], /, add_generation_prompt: bool = True, **args: Any) -> str:
        """The prompt as text. `args` are further names for the template, such as `tools`.

        Raises EdgeLLMError when the template refuses the messages, fails, or takes too much time or memory.
        """
        names = self._names | args | {"messages": messages, "add_generation_prompt": add_generation_prompt}
        with self._lock:
            self._sandbox.start()
            try:
                return self._template.render(names)
            except Exception as error:  # templates can make Python raise nearly anything
                raise _refused("failed", str(error) or type(error).__name__) from None


def chat_tokens(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    /,
    **args: Any,
) -> list[int]:
    """The ids of a rendered chat, with one BOS if the model wants one.

    Only the template's own text makes control tokens: in the messages and `args`, what looks like one is
    rendered with a private character inside, which keeps it apart from the real ones. Raises as `render`.
    """
    # No character can be put into a text of one, so those are never taken for control tokens.
    controls = {text: i for text, i in tokenizer.control_texts.items() if len(text) > 1}
    guard = _Guard(_unused_character(template.source, messages, args, *controls), controls)
    rendered = template.render(guard.applied(messages), **guard.applied(args))
    parts: list[str | int] = []
    for part in tokenizer.split(rendered, controls):
        parts += [part] if isinstance(part, int) else tokenizer.split(part.replace(guard.mark, ""), {})
    ids = tokenizer.encode_parts(parts)
    if tokenizer.add_bos and tokenizer.bos_id is not None:
        while ids[:1] == [tokenizer.bos_id]:
            del ids[0]
        ids.insert(0, tokenizer.bos_id)
    return ids


class _Guard:
    """Marks text so that no control token can be read in it, nor in its ends and what comes next to them."""

    def __init__(self, mark: str, controls: Mapping[str, int]) -> None:
        self.mark = mark
        self._controls = controls
        self._heads = {text[:n] for text in controls for n in range(1, len(text))}
        self._tails = {text[n:] for text in controls for n in range(1, len(text))}
        self._reach = max(map(len, controls), default=0)

    def applied(self, value: Any) -> Any:
        """A copy of `value` with all text in it marked, keys too."""
        if isinstance(value, str):
            return self._text(without_surrogates(value))
        if isinstance(value, Mapping):
            return {self.applied(key): self.applied(item) for key, item in value.items()}
        return [self.applied(item) for item in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        if text.isalnum():
            return text  # roles, keys and types, which templates compare
        for control in self._controls:
            while control in text:
                text = text.replace(control, control[0] + self.mark + control[1:])
        reach = range(1, self._reach)
        before = self.mark if any(text[:n] in self._tails for n in reach) else ""
        after = self.mark if any(text[-n:] in self._heads for n in reach) else ""
        return before + text + after


def _unused_character(*values: object) -> str:
    used = set(chain.from_iterable(_texts(values)))
    unused = (chr(i) for i in chain(*_PRIVATE) if chr(i) not in used)
    for mark in unused:
        return mark
    raise EdgeLLMError("the messages use every private character of Unicode; take some out")


def _texts(value: object) -> Iterator[str]:
    """Every text in `value`, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _refused(how: str, problem: str) -> EdgeLLMError:
    return EdgeLLMError(f"the chat template {how}: {printable(problem, 300)}; choose another as --template NAME|FILE")
