"""The prompt of `edgellm generate`: its parts, and whether it is a message or plain text."""

import shlex
import sys
from collections.abc import Iterable
from typing import Any

import click

from edgellm.cli.options import (
    TOO_LONG,
    in_order,
    overflow_option,
    system_option,
    template_arg_option,
    template_option,
    utf8,
)
from edgellm.cli.shell_completion import files
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable, shown_path
from edgellm.options import ChatOptions
from edgellm.system.text_input import MAX_TEXT_BYTES, decode_input, read_input

STDIN = "-"
"""The name of a file that means stdin."""

_NEED_A_TEMPLATE = {
    "overflow": "--overflow",
    "system": "a system prompt",
    "template_args": "--template-arg",
    "tools": "--tools",
}
_OF_CHATS = (
    *("system", "system_file", "template", "template_arg", "overflow"),
    *("tools", "tool_choice", "parallel_tool_calls"),
)


prompt_options = in_order(
    click.option("-p", "--prompt", metavar="TEXT", callback=utf8, help="The prompt."),
    click.option(
        "-f",
        "--file",
        "files",
        metavar="FILE",
        multiple=True,
        shell_complete=files,
        help="A file with more of the prompt; - is stdin; repeatable.",
    ),
    click.option("--chat", is_flag=True, help="Send the prompt as a message; fail if the model has no chat template."),
    click.option("--raw", is_flag=True, help="Complete the prompt as plain text, without a chat template."),
    system_option,
    click.option("--system-file", metavar="FILE", shell_complete=files, help="The system prompt, from a file."),
    template_option,
    template_arg_option,
    overflow_option,
)
"""Adds the options of the prompt and of the conversation that it is a message of."""


def conversation(given: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the options of chats from `given`, and return them as arguments of `Model.chat`; None for plain text.

    An empty dict means a message if the model has a chat template, else plain text. Raises click.UsageError and
    EdgeLLMError.
    """
    chat, raw = given.pop("chat"), given.pop("raw")
    values = {name: given.pop(name) for name in _OF_CHATS}
    named = [f"--{name.replace('_', '-')}" for name, value in values.items() if value not in (None, {})]
    if raw and (chat or named):
        one = named[0] if named else "--chat"
        raise click.UsageError(
            f"--raw and {one} exclude each other: {one} needs a chat template, which --raw leaves out."
        )
    if None not in (values["system"], values["system_file"]):
        raise click.UsageError("--system and --system-file exclude each other.")
    if values["tool_choice"] is not None and values["tools"] is None:
        raise click.UsageError("--tool-choice belongs to --tools.")
    if values["parallel_tool_calls"] is not None and values["tools"] is None:
        raise click.UsageError("--no-parallel-tool-calls belongs to --tools.")
    ChatOptions.from_kwargs(overflow=values["overflow"])
    if raw:
        return None
    return _for_chat(**values) if chat or named else {}


def _for_chat(
    system: str | None,
    system_file: str | None,
    template: str | None,
    template_arg: dict[str, str],
    overflow: str | None,
    **tools: Any,
) -> dict[str, Any]:
    if system_file is not None:
        system = part(system_file, "--system-file")
    source = None if template is None else template_of(template)
    return {"system": system, "template": source, "template_args": template_arg, "overflow": overflow, **tools}


def check_file_name(path: str, option: str) -> None:
    """Raises OptionError for an empty name of a file, which an unset variable of the shell gives."""
    if option and not path:
        raise OptionError(f"{option}: the name of the file is empty; give a text file")


def check_template(model: str, chat: dict[str, Any]) -> None:
    """Raise EdgeLLMError if an option in `chat` needs a template: `model` has none, and no option gives one."""
    named = (option for name, option in _NEED_A_TEMPLATE.items() if chat.get(name) not in (None, {}))
    if chat.get("template") is None and (need := next(named, None)):
        advice = "give one with --template NAME|FILE, or leave it out"
        raise EdgeLLMError(f"{shown_path(model)} has no chat template, which {need} needs: {advice}")


def prompt(text: str | None, files: Iterable[str], words: list[str]) -> str:
    """Join the parts of the prompt. stdin is a part if `-` names it, or if it is no terminal and not empty.

    The line end that editors and `echo` add to the last part is removed. Raises click.UsageError for `words` that do
    not follow -p, and if there is no part.
    """
    if words:
        raise click.UsageError(f"give the prompt with -p: -p {shlex.quote(printable(' '.join(words)))}")
    parts = [_content(file, "-f") for file in files]
    if STDIN not in files and sys.stdin and not sys.stdin.isatty():
        parts += [rest] if (rest := _stdin()) else []
    if not parts and text is None:
        raise click.UsageError("no prompt: give -p TEXT, -f FILE, or text on stdin.")
    return (text or "") + _without_last_end("".join(parts))


def part(file: str, option: str) -> str:
    """The text of a file, which `option` names, or of stdin, without the end of its last line."""
    return _without_last_end(_content(file, option))


def _content(file: str, option: str) -> str:
    check_file_name(file, option)
    return _stdin() if file == STDIN else decode_input(read_input(file), file, TOO_LONG)


def _without_last_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _stdin() -> str:
    return decode_input(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "stdin", TOO_LONG) if sys.stdin else ""


def template_of(name: str) -> str:
    """The source of a chat template by its name or its file. Raises OptionError."""
    from edgellm.text.template import template_source  # imports numpy

    return template_source(name)
