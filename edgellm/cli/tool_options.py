"""The options of `edgellm generate` for tools: a file of definitions, and whether the model must call one."""

import json
from typing import Any

import click

from edgellm.cli.options import in_order, utf8
from edgellm.cli.shell_completion import files, one_of
from edgellm.cli.text_file import read_text
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import GenerationOptions

_SHAPE = 'give a list of OpenAI definitions, or {"tools": [...]}'


def _definitions(context: click.Context, option: click.Parameter, path: str | None) -> list[Any] | None:
    """The definitions in a file. Raises EdgeLLMError, and OptionError for a fault in one."""
    if path is None:
        return None
    name = printable(path, 400)
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"--tools: {name} is not JSON: {printable(str(error), 200)}; {_SHAPE}") from None
    definitions = found.get("tools") if isinstance(found, dict) else found
    if not isinstance(definitions, list) or not all(isinstance(each, dict) for each in definitions):
        raise OptionError(f"--tools: {name} has no list of definitions; {_SHAPE}")
    from edgellm.tools.tool import tools_of

    try:
        tools_of(definitions)
    except OptionError as error:
        raise OptionError(f"--tools: {name}: {error}") from None
    return definitions


def check_tools(chat: dict[str, Any] | None, options: GenerationOptions) -> None:
    """Raises OptionError for tools that the options exclude, whatever the model."""
    if chat and chat.get("tools") is not None:
        from edgellm.tools.use import check_options, given_tools

        check_options(given_tools(chat["tools"], chat["tool_choice"])[1], options)


tool_options = in_order(
    click.option(
        "--tools",
        metavar="FILE",
        callback=_definitions,
        shell_complete=files,
        help="Tools that the model may call: OpenAI definitions as JSON; - is stdin. Calls are printed as JSON lines.",
    ),
    click.option(
        "--tool-choice",
        metavar="CHOICE",
        callback=utf8,
        shell_complete=one_of("auto", "none", "required"),
        help="auto, none, required, or the name of the tool to call; by default auto.",
    ),
    click.option(
        "--no-parallel-tool-calls",
        "parallel_tool_calls",
        flag_value=False,
        type=bool,
        default=None,
        help="Allow one call at most.",
    ),
)
"""Adds the options of tools."""
