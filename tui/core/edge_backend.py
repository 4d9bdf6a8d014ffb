"""Models of edgellm for the chat. The library is imported only when a model is opened or checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from tui.core.backend import NoTemplateError
from tui.core.continued_reply import ContinuedReply
from tui.core.model_references import absolute_model_path, is_of_server

if TYPE_CHECKING:
    from pathlib import Path

    from edgellm.chat import Chat
    from edgellm.model import Model
    from edgellm.text.inspection import Inspection
    from tui.core.backend import Messages, OpenModel, Options, ReplyStream, Report


class EdgeModel:
    """An OpenModel of this machine. One `edgellm.chat.Chat` serves all conversations: they share its prefix cache."""

    def __init__(self, name: str, path: str, model: Model, template: str | None) -> None:
        self.name, self.path, self._model = name, path, model
        self.ctx, self.counts, self.continues = model.ctx, True, True
        self.threads = model.engine.threads
        self._chat: Chat = model.chat(template=template)
        self.thinking, self.effort, self.calls = self._chat.thinking, self._chat.effort, self._chat.calls
        self.defaults = model.sampling_defaults

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The devices that compute now: a GPU may fail in the middle of a reply."""
        return self._model.engine.devices

    @property
    def weights_in_memory(self) -> tuple[int | None, int]:
        """Bytes of the weights that are in memory now, None if the system does not tell, and bytes of all."""
        return self._model.weights_in_memory

    @property
    def drafter(self) -> str:
        """The path of a model or head that drafts, once it is loaded; of a layer of the model's own file what it is."""
        name = self._model.drafts_with
        return name.removesuffix(f" of {shown_path(self._model.file.path)}") if name else ""

    def reply(self, messages: Messages, options: Mapping[str, Any], begun: str) -> ReplyStream:
        """Begin a reply, or continue the text `begun`. Raises EdgeLLMError."""
        reply = self._chat.reply(messages, begun=begun, logprobs=False, **options)
        return ContinuedReply(begun, reply) if begun else reply

    def cancel(self) -> None:
        """End a reply, also while its prompt is made."""
        self._chat.cancel()

    def inspect(self, messages: Messages, options: Mapping[str, Any]) -> Inspection:
        """The prompt of a conversation. Raises EdgeLLMError."""
        return self._chat.inspect(messages, **options)

    def count(self, messages: Messages, options: Mapping[str, Any]) -> int:
        """The number of tokens of a conversation. Raises EdgeLLMError."""
        return self._chat.count(
            messages, **{name: options[name] for name in ("template_args", "tools") if name in options}
        )

    def count_text(self, text: str) -> int:
        """The number of tokens of a text alone."""
        return len(self._model.tokenizer.encode(text))

    def close(self) -> None:
        """Release the memory and the file of the model."""
        self._model.close()


class EdgeBackend:
    """The Backend of this machine."""

    server = ""

    def reference(self, model: str) -> str:
        """The absolute path if `model` is a path, else the name."""
        return absolute_model_path(model)

    def title(self, reference: str) -> str:
        """The reference."""
        return reference

    def owns(self, model: str) -> bool:
        """Whether this is no reference to a model of a server."""
        return not is_of_server(model)

    def open(self, model: str, options: Options, report: Report) -> OpenModel:
        """Open a path, a name of `edgellm list`, or `builtin`. Raises EdgeLLMError."""
        report("starting the engine")
        from edgellm.text.rendering.renderer import renderer

        renderer.warm()  # starts in parallel with the loading
        from edgellm.model import Model
        from edgellm.models import canonical_name, display_name, resolve

        def compiling(done: int, total: int) -> None:
            report(f"compiling kernels for this CPU, once: {done} of {total}")

        path = resolve(model)
        name = display_name(path)
        report(f"opening {path.name}")
        load, template = _split(options(name, canonical_name(path)))
        opened = Model.open(path, progress=compiling, **load)
        try:
            source = _template_source(path, opened.tokenizer.chat_template, template)
            return EdgeModel(name, canonical_name(path), opened, source if template else None)
        except BaseException:
            opened.close()
            raise

    def check(self, model: str, options: Options) -> None:
        """Check the file's header, its memory plan without a GPU, and its chat template. Raises EdgeLLMError."""
        from edgellm.gguf import GGUFFile
        from edgellm.models import canonical_name, display_name, resolve
        from edgellm.options import LoadOptions
        from edgellm.speculation.draft_plan import plan_with_draft
        from edgellm.text.template import ChatTemplate

        path = resolve(model)
        load, template = _split(options(display_name(path), canonical_name(path)))
        with GGUFFile.open(path) as file:
            plan_with_draft(file, LoadOptions.from_kwargs(**{**load, "gpu_layers": 0}))
            source = _template_source(path, file.get_str("tokenizer.chat_template", None), template)
            ChatTemplate(source, bos="", eos="")  # its validity does not depend on the tokens

    def names(self) -> Sequence[str]:
        """The names of the models that `edgellm list` shows."""
        from edgellm.models.names import named_models

        return [name for name, _ in named_models()]


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields of `LoadOptions`, and the chat template that is set."""
    return {name: value for name, value in options.items() if name != "template"}, options.get("template")


def _template_source(path: Path, own: str | None, chosen: str | None) -> str:
    """The template that is set, else the model's own. Raises NoTemplateError if there is neither."""
    from edgellm.fmt import shown_path
    from edgellm.text.template import template_source

    if chosen is not None:
        try:
            return template_source(chosen)
        except EdgeLLMError as error:
            raise EdgeLLMError(f"/set template: {str(error).removeprefix('--template: ')}") from None
    if own is None:
        name = shown_path(path)
        advice = "/set template chatml, or --template chatml at the start, opens it all the same"
        raise NoTemplateError(f"{name} has no chat template, and may not be a chat model: {advice}")
    return own
