"""What the worker needs of models, and how it gets that from edgellm, which is imported only when a model is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from edgellm.errors import EdgeLLMError
from tui.core.continued_reply import ContinuedReply

if TYPE_CHECKING:
    from pathlib import Path

    from edgellm.chat import Chat
    from edgellm.generate.stats import Live, Stats
    from edgellm.model import Model
    from edgellm.text.inspection import Inspection

Messages = Sequence[Mapping[str, str]]
"""A conversation as `edgellm.Chat` has it: `role` and `content`, the system prompt first."""

Say = Callable[[str], None]
"""Is told what is being done, in a few words. Raises when that is not wanted any more."""

Options = Callable[[str, str], Mapping[str, Any]]
"""The fields of `LoadOptions` for a model, by the name that it has in lists and its path."""


class NoTemplateError(EdgeLLMError):
    """A model has no chat template; once one is set for it, it opens."""


class ReplyStream(Protocol):
    """A reply being written: iterate over it to write it. `edgellm.generate.generation.Generation` is one."""

    @property
    def text(self) -> str:
        """What has come so far."""

    @property
    def finish_reason(self) -> str | None:
        """Why it ended; None until it has."""

    @property
    def dropped_tokens(self) -> int:
        """Tokens of the conversation that it does not see."""

    @property
    def dropped_messages(self) -> int:
        """Messages from the first one on, without the system prompt, that it does not see."""

    @property
    def stats(self) -> Stats:
        """The figures so far."""

    def __iter__(self) -> Any: ...

    def live(self) -> Live:
        """The figures of this moment; from any thread."""

    def cancel(self) -> None:
        """Write no further; from any thread."""


class OpenModel(Protocol):
    """A model, ready to reply. `thinking`: it can be switched on and off.

    `defaults` are the options of replies for which its file brings values of its own.
    """

    name: str
    path: str
    ctx: int
    threads: int
    thinking: bool
    defaults: Mapping[str, Any]

    @property
    def devices(self) -> list[dict[str, Any]]:
        """What computes, as in `edgellm.generate.stats.Stats`."""

    def reply(self, messages: Messages, options: Mapping[str, Any], begun: str) -> ReplyStream:
        """Begin a reply, or go on with one that has `begun` so. Raises EdgeLLMError."""

    def cancel(self) -> None:
        """Have a reply that is being begun fail at once; from any thread."""

    def inspect(self, messages: Messages, options: Mapping[str, Any]) -> Inspection:
        """What the model would get. Raises EdgeLLMError."""

    def count(self, messages: Messages, options: Mapping[str, Any]) -> int:
        """The tokens of a conversation. Raises EdgeLLMError."""

    def count_text(self, text: str) -> int:
        """The tokens of a text alone."""

    def close(self) -> None:
        """Let go of it."""


class Backend(Protocol):
    """Finds models and opens them."""

    def open(self, model: str, options: Options, say: Say) -> OpenModel:
        """Open what MODEL means, with the fields of `LoadOptions` that are for it. Raises EdgeLLMError."""

    def check(self, model: str, options: Options) -> None:
        """Look whether a model could be opened so, as far as that takes no time. Raises EdgeLLMError."""

    def names(self) -> Sequence[str]:
        """The names of the models that are here; looking for them may take a while."""


class EdgeModel:
    """A model of edgellm's, with one chat for all conversations: it keeps what it has read of the last ones."""

    def __init__(self, name: str, path: str, model: Model, template: str | None) -> None:
        self.name, self.path, self._model = name, path, model
        self.ctx = model.ctx
        self.threads = model.engine.threads
        self._chat: Chat = model.chat(template=template)
        self.thinking, self.defaults = self._chat.thinking, model.sampling_defaults

    @property
    def devices(self) -> list[dict[str, Any]]:
        """What computes now: a GPU may fail in mid-reply."""
        return self._model.engine.devices

    def reply(self, messages: Messages, options: Mapping[str, Any], begun: str) -> ReplyStream:
        """Begin a reply, or go on with one that has `begun` so. Raises EdgeLLMError."""
        reply = self._chat.reply(messages, begun=begun, logprobs=False, **options)
        return ContinuedReply(begun, reply) if begun else reply

    def cancel(self) -> None:
        """Stop making a prompt, and the reply."""
        self._chat.cancel()

    def inspect(self, messages: Messages, options: Mapping[str, Any]) -> Inspection:
        """What the model would get."""
        return self._chat.inspect(messages, **options)

    def count(self, messages: Messages, options: Mapping[str, Any]) -> int:
        """The tokens of a conversation. Raises EdgeLLMError."""
        return self._chat.count(messages, **{name: options[name] for name in ("template_args",) if name in options})

    def count_text(self, text: str) -> int:
        """The tokens of a text alone."""
        return len(self._model.tokenizer.encode(text))

    def close(self) -> None:
        """Let go of memory and file."""
        self._model.close()


class EdgeBackend:
    """Opens model files with edgellm."""

    def open(self, model: str, options: Options, say: Say) -> OpenModel:
        """Open a path, a name of `edgellm list`, or `builtin`. Raises EdgeLLMError."""
        say("starting the engine")
        from edgellm.text.rendering.renderer import renderer

        renderer.warm()  # beside what follows
        from edgellm.model import Model
        from edgellm.models import canonical_name, display_name, resolve

        def compiling(done: int, total: int) -> None:
            say(f"compiling kernels for this CPU, once: {done} of {total}")

        path = resolve(model)
        name = display_name(path)
        say(f"opening {path.name}")
        load, template = _parted(options(name, canonical_name(path)))
        opened = Model.open(path, progress=compiling, **load)
        try:
            source = _source(path, opened.tokenizer.chat_template, template)
            return EdgeModel(name, canonical_name(path), opened, source if template else None)
        except BaseException:
            opened.close()
            raise

    def check(self, model: str, options: Options) -> None:
        """Read the header of its file, plan but for a GPU, and read its chat template."""
        from edgellm.gguf import GGUFFile
        from edgellm.models import canonical_name, display_name, resolve
        from edgellm.options import LoadOptions
        from edgellm.perf.plan import make_plan
        from edgellm.text.template import ChatTemplate

        path = resolve(model)
        load, template = _parted(options(display_name(path), canonical_name(path)))
        with GGUFFile.open(path) as file:
            make_plan(file, LoadOptions.from_kwargs(**{**load, "gpu_layers": 0}))
            source = _source(path, file.get_str("tokenizer.chat_template", None), template)
            ChatTemplate(source, bos="", eos="")  # whether it is valid does not depend on these

    def names(self) -> Sequence[str]:
        """As `edgellm list` shows them."""
        from edgellm.models.names import unique_names
        from edgellm.models.stores import stored_models

        return unique_names(stored_models())


def _parted(options: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields of `LoadOptions`, and the template that is set."""
    return {name: value for name, value in options.items() if name != "template"}, options.get("template")


def _source(path: Path, own: str | None, chosen: str | None) -> str:
    """The template that is set, or else the model's own. Raises EdgeLLMError where there is neither."""
    from edgellm.fmt import printable
    from edgellm.text.template import template_source

    if chosen is not None:
        try:
            return template_source(chosen)
        except EdgeLLMError as error:
            raise EdgeLLMError(f"/set template: {str(error).removeprefix('--template: ')}") from None
    if own is None:
        name = printable(str(path), 400)
        advice = "/set template chatml, or --template at the start, lets it talk all the same"
        raise NoTemplateError(f"{name} has no chat template, so that it may not be a chat model: {advice}")
    return own
