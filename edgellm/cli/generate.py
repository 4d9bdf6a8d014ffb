"""`edgellm generate`: streams a reply to stdout; everything else goes to stderr."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from edgellm.cli import prompt_input
from edgellm.cli.generate_output import GenerateOutput, check_calls, notes, server_notes, template_notes
from edgellm.cli.guide_options import check_form, guide_options
from edgellm.cli.options import beams_option, generation_options, load_options, number
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.prompt_input import check_template, conversation, prompt_options
from edgellm.cli.server_options import given_server, server_options
from edgellm.cli.shell_completion import model_names
from edgellm.cli.tool_options import check_tools, name_file, tool_options
from edgellm.errors import EdgeLLMError, IncompleteOutputError, OptionError, PromptError
from edgellm.options import GenerationOptions, LoadOptions
from edgellm.options.definitions import check_beams

if TYPE_CHECKING:
    from edgellm.chat import Chat
    from edgellm.generate.generation import Generation
    from edgellm.model import Model
    from edgellm.remote.address import ServerAddress
    from edgellm.remote.reply import RemoteReply

_LOCAL = (*LoadOptions.names(), "template", "overflow", "special", "logprobs", "beams")
"""Options that need a model on this machine."""


@click.command("generate", context_settings={"allow_extra_args": True})
@click.argument("model", required=False, shell_complete=model_names)
@prompt_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object: text, tokens, finish_reason, stats, dropped_tokens, chat, logprobs; with a form also"
    " answer and parsed, with tools tool_calls and broken_calls, with --beams all replies that were found.",
)
@click.option("--jsonl", is_flag=True, help="Print one JSON object for each token.")
@click.option(
    "--logprobs",
    type=int,
    callback=number(1),
    metavar="N",
    help="With --json or --jsonl: log-probabilities of each token, and of the N most likely tokens at its position.",
)
@click.option("-q", "--quiet", is_flag=True, help="Write only the text and errors: no figures, no notes.")
@click.option("--raw-output", is_flag=True, help="Do not sanitize the text: it may control the terminal.")
@server_options
@tool_options
@guide_options
@generation_options
@beams_option
@load_options
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str | None,
    prompt: str | None,
    files: tuple[str, ...],
    as_json: bool,
    jsonl: bool,
    logprobs: int | None,
    quiet: bool,
    raw_output: bool,
    server: str | None,
    server_key: str | None,
    **given: Any,
) -> None:
    """Stream the reply of MODEL, a GGUF file, a name in `edgellm list`, or a model of a server, to a prompt.

    The prompt joins -p, each -f, and stdin, in this order. It is a message in the model's chat template. With --raw, or
    if the model has no template, the model completes the text. Ctrl-C stops the reply, and exits with 130.
    """
    if as_json and jsonl:
        raise click.UsageError("--json and --jsonl exclude each other.")
    if logprobs and not (as_json or jsonl):
        raise click.UsageError("--logprobs belongs to --json or --jsonl.")
    if jsonl and given["beams"] is not None:
        raise click.UsageError("--beams has no token before its end: take --json.")
    if given["beams"] is not None and given["draft"] not in (None, "off"):
        raise click.UsageError("--beams takes no drafts: leave --draft out.")
    of_server = given_server(server, server_key, _LOCAL, {**given, "logprobs": logprobs})
    if model is None and not of_server:
        raise click.UsageError("Missing argument 'MODEL'.")
    given["logprobs"] = False if of_server else logprobs or jsonl
    chat = conversation(given)
    text = prompt_input.prompt(prompt, files, context.args)
    load = {name: given.pop(name) for name in LoadOptions.names()}
    # Impossible values are reported before a model of gigabytes is opened.
    LoadOptions.from_kwargs(**load)
    options = GenerationOptions.from_kwargs(**given)
    check_beams(given)
    check_tools(chat, options)
    if options.partial and not (options.form or (chat or {}).get("tools") is not None):
        raise click.UsageError("--partial belongs to a form, such as --json-schema, or to --tools.")
    check_form(options)
    with show_warnings(quiet):
        has_tools = (chat or {}).get("tools") is not None
        output = GenerateOutput(as_json, jsonl, quiet, raw_output, has_tools)
        if of_server:
            context.exit(_generate_at_server(of_server, model or "", text, chat, output, given))
        assert model is not None
        context.exit(_generate(model, text, chat, output, load, given))


def _generate(
    name: str,
    text: str,
    chat: dict[str, Any] | None,
    output: GenerateOutput,
    load: dict[str, Any],
    given: dict[str, Any],
) -> int:
    """Open the model and stream the reply. Returns the exit code."""
    from edgellm.text.rendering.renderer import renderer

    if chat is not None:
        renderer.warm()  # its process starts while the model loads
    from edgellm.model import Model  # these import numpy; wrong options are reported before
    from edgellm.models import resolve

    with (
        ProgressLine(output.quiet) as progress,
        Model.open(resolve(name), progress=progress.compiling, uploading=progress.uploading, **load) as model,
    ):

        def on_prefill(done: int, total: int) -> None:
            if not generation.tokens:  # when a full context is read again, a progress line would be amid the text
                progress.prefilling(done, total)

        if model.tokenizer.chat_template is None:
            check_template(name, chat or {})
        with _suggest_raw(implicit=chat == {}), name_file():
            responder = _chat_or_model(model, chat)
            generation = responder.stream(text, progress=on_prefill, **given)
        if chat == {} and responder is not model:
            output.say(*template_notes(model, text))
        try:
            show = _stream if given["beams"] is None else _search
            interrupted = show(generation, output, progress)
        except IncompleteOutputError:
            output.end(generation, responder is not model)
            raise
        output.end(generation, responder is not model)
        output.say(*notes(generation, model.ctx, given["max_tokens"], responder is not model), generation.stats)
        if not (interrupted or given["partial"]):
            check_calls(generation)
        return 130 if interrupted else 0


def _generate_at_server(
    of_server: "tuple[ServerAddress, str | None]",
    name: str,
    text: str,
    chat: dict[str, Any] | None,
    output: GenerateOutput,
    given: dict[str, Any],
) -> int:
    """Stream the reply of a model of a server. Returns the exit code."""
    from edgellm.remote.model import RemoteServer

    model = RemoteServer(*of_server).model(name)
    if chat is None:
        reply = model.complete(text, given)
    else:
        system = chat.pop("system", None)
        messages = [{"role": "system", "content": system}] if system is not None else []
        reply = model.reply([*messages, {"role": "user", "content": text}], {**given, **chat})
    with ProgressLine(output.quiet) as progress:
        try:
            interrupted = _stream(reply, output, progress)
        except IncompleteOutputError:
            output.end(reply, chat is not None)
            raise
        except EdgeLLMError:  # amid the reply: the text so far is written
            output.end_line(reply)
            raise
    output.end(reply, chat is not None)
    output.say(*server_notes(reply, given["max_tokens"]), reply.stats)
    if not (interrupted or given["partial"]):
        check_calls(reply)
    return 130 if interrupted else 0


def _stream(generation: "Generation | RemoteReply", output: GenerateOutput, progress: ProgressLine) -> bool:
    """Write the tokens as they are generated. Returns whether Ctrl-C cancelled the generation."""
    with _ctrl_c_cancels(generation) as signals:
        for token in generation:
            progress.clear()
            output.token(token)
    progress.clear()
    return bool(signals)


def _search(generation: "Generation", output: GenerateOutput, progress: ProgressLine) -> bool:
    """Write the best reply of a beam search. Returns whether Ctrl-C cancelled it."""
    with _ctrl_c_cancels(generation) as signals:
        generation.completion()
    progress.clear()
    output.text(generation.text)
    return bool(signals)


def _chat_or_model(model: "Model", chat: dict[str, Any] | None) -> "Model | Chat":
    """The chat or model that gets the prompt. Without options of chats (see `conversation`), the template decides."""
    return model.chat(**chat) if chat or (chat is not None and model.tokenizer.chat_template) else model


@contextmanager
def _suggest_raw(implicit: bool) -> Iterator[None]:
    """Suggest --raw in an error of the chat template, if its use was `implicit`: no option asked for it."""
    try:
        yield
    except EdgeLLMError as error:
        if not implicit or isinstance(error, OptionError | PromptError):
            raise
        raise EdgeLLMError(f"{error}, or complete text with --raw") from error


@contextmanager
def _ctrl_c_cancels(generation: Any) -> Iterator[list[int]]:
    """Let Ctrl-C cancel the generation, so that every counted token is output. Yields the list of received signals.

    A second Ctrl-C raises KeyboardInterrupt. If SIGINT is ignored, as after a shell's `&`, it stays ignored.
    """
    signals: list[int] = []
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield signals
        return

    def cancel(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        signals.append(number)
        generation.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)
