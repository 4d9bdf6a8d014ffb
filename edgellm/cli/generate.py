"""`edgellm generate`: stream a completion to stdout; all else goes to stderr."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from edgellm.cli.options import generation_options, load_options, pairs
from edgellm.cli.screen import Progress, notices
from edgellm.cli.shell import model_names
from edgellm.gguf.printable import printable
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions
from edgellm.texts import LONGEST, decode, read

_TOO_LONG = "give a text that fits the context"


def _as_utf8(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """The callback of an option for text: raises EdgeLLMError for bytes that are not UTF-8."""
    # Such bytes come as lone surrogates, which `decode` refuses as well.
    return None if text is None else decode(text.encode(errors="surrogatepass"), option.opts[0], _TOO_LONG)


@click.command(context_settings={"allow_extra_args": True})
@click.argument("model", shell_complete=model_names)
@click.option("-p", "--prompt", metavar="TEXT", callback=_as_utf8, help="The prompt.")
@click.option("-f", "--file", "files", metavar="FILE", multiple=True, help="A file with more of the prompt.")
@click.option("--chat", is_flag=True, help="Send the prompt as a message, in the model's chat template.")
@click.option("--system", metavar="TEXT", callback=_as_utf8, help="The system prompt of --chat.")
@click.option("--template", metavar="NAME|FILE", help="Another chat template: chatml, llama3, ..., or a Jinja2 file.")
@click.option("--template-arg", metavar="K=V", multiple=True, callback=pairs, help="A name for the template.")
@click.option("--overflow", metavar="POLICY", help="When --chat outgrows the context: stop (default), drop, window.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: text, tokens, finish_reason, stats, dropped_tokens."
)
@click.option("--jsonl", is_flag=True, help="Print one JSON object for each token.")
@generation_options
@load_options
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    prompt: str | None,
    files: tuple[str, ...],
    chat: bool,
    system: str | None,
    template: str | None,
    template_arg: dict[str, str],
    overflow: str | None,
    as_json: bool,
    jsonl: bool,
    **given: Any,
) -> None:
    """Stream what MODEL, a GGUF file or a name in `edgellm list`, writes after a prompt.

    The prompt is -p, then each -f, then stdin, joined. Ctrl-C stops, keeps what has come, and exits with 130.
    """
    if context.args:
        raise click.UsageError(f"a prompt goes behind -p: -p {shlex.quote(printable(' '.join(context.args)))}")
    if as_json and jsonl:
        raise click.UsageError("--json and --jsonl exclude each other.")
    if not chat and (system or template or template_arg or overflow):
        raise click.UsageError("--system, --template, --template-arg and --overflow belong to --chat.")
    text = _prompt(prompt, files)
    load = {name: given.pop(name) for name in LoadOptions.names()}
    # Wrong values are told before a model of gigabytes is opened.
    LoadOptions.from_kwargs(**load)
    GenerationOptions.from_kwargs(**given)
    ChatOptions.from_kwargs(overflow=overflow)
    source = None if template is None else _template(template)
    talk = {"system": system, "template": source, "template_args": template_arg, "overflow": overflow} if chat else None
    context.exit(_generate(model, text, talk, as_json, jsonl, load, given))


def _generate(
    name: str,
    text: str,
    chat: dict[str, Any] | None,
    as_json: bool,
    jsonl: bool,
    load: dict[str, Any],
    given: dict[str, Any],
) -> int:
    from edgellm.model import Model  # after the options were checked: they bring numpy and more
    from edgellm.models import resolve

    if sys.stdout:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    with (
        notices(),
        Progress() as progress,
        Model.open(resolve(name), progress=progress.compiling, uploading=progress.uploading, **load) as model,
    ):
        talk = model if chat is None else model.chat(**chat)

        def reading(done: int, total: int) -> None:
            if not generation.tokens:  # later, when a full context is read again, it would be amid the text
                progress.prefilling(done, total)

        generation = talk.stream(text, progress=reading, logprobs=jsonl, **given)
        with _ctrl_c_cancels(generation) as interrupts:
            for token in generation:
                progress.clear()
                _show(token, as_json, jsonl)
        progress.clear()
        if as_json:
            click.echo(json.dumps(asdict(generation.completion())))
        elif not jsonl and _needs_line_end():
            click.echo()
        if generation.finish_reason == "length" and len(generation.tokens) != given["max_tokens"]:
            click.echo(f"edgellm: note: the context of {model.ctx:,} tokens is full", err=True)
        if generation.dropped_tokens:
            left_out = f"{generation.dropped_tokens:,} tokens did not fit the context of {model.ctx:,}"
            click.echo(f"edgellm: note: {left_out}, and were not seen in the end", err=True)
        click.echo(generation.stats, err=True)
        return 130 if interrupts else 0


@contextmanager
def _ctrl_c_cancels(generation: Any) -> Iterator[list[int]]:
    """Let Ctrl-C cancel the generation, so that no token is counted and not shown; a list of the signals that came.

    A second one interrupts as ever. Where SIGINT is ignored, as behind a shell's `&`, it stays so.
    """
    came: list[int] = []
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield came
        return

    def cancel(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        came.append(number)
        generation.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _needs_line_end() -> bool:
    """Whether what follows would stick to the text: on a terminal, and where stderr goes the same way as stdout."""
    try:
        return sys.stdout.isatty() or os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        return False


def _show(token: Any, as_json: bool, jsonl: bool) -> None:
    if jsonl:
        fields = {name: getattr(token, name) for name in ("id", "text", "logprob", "finish_reason")}
        click.echo(json.dumps(fields | {"stats": asdict(token.stats)}))
    elif not as_json:
        click.echo(token.text, nl=False)


def _prompt(text: str | None, files: Iterable[str]) -> str:
    """All parts of the prompt joined; a terminal on stdin is no part.

    The line end that editors and `echo` put behind the last part is none of the prompt.
    """
    parts = [decode(read(file), file, _TOO_LONG) for file in files]
    if sys.stdin and not sys.stdin.isatty():
        parts.append(decode(sys.stdin.buffer.read(LONGEST + 1), "stdin", _TOO_LONG))
    if not parts and text is None:
        raise click.UsageError("no prompt: give -p TEXT, -f FILE, or text on stdin.")
    return (text or "") + "".join(parts).removesuffix("\n").removesuffix("\r")


def _template(name: str) -> str:
    from edgellm.text.template import template_source  # brings numpy and jinja2

    return template_source(name)
