"""The options of `edgellm generate` for tools: a file of definitions or commands, and whether one must be called."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from edgellm.cli.options import in_order, utf8
from edgellm.cli.shell_completion import files, one_of
from edgellm.cli.text_file import read_text
from edgellm.errors import OptionError
from edgellm.fmt import shown_path
from edgellm.options import GenerationOptions

_FILE = f"{__name__}.file"
"""The key of the name of the file, in the `meta` of click's context."""

_SHAPE = 'give a list of OpenAI definitions or commands, or {"tools": [...]}'


def _definitions(context: click.Context, option: click.Parameter, path: str | None) -> list[Any] | None:
    """The definitions in a file, also those of commands. Raises EdgeLLMError, and OptionError for a fault in one."""
    if path is None:
        return None
    text = read_text(path, "--tools")
    from edgellm.tools.commands.read import command_tool, tool_entries
    from edgellm.tools.tool import tools_of

    name, folder = shown_path(path), Path(path).parent
    context.meta[_FILE] = name
    tools = list[Any]()
    for i, entry in enumerate(tool_entries(text, f"--tools: {name}", _SHAPE)):
        place = f"--tools: {name}: tools[{i}]"
        tools.append(command_tool(entry, place, folder) if "command" in entry else entry)
    try:
        return [tool.definition for tool in tools_of(tools).values()]
    except OptionError as error:
        raise OptionError(f"--tools: {name}: {error}") from None


@contextmanager
def name_file() -> Iterator[None]:
    """Names the file in an error about the schema of a tool, which a model is needed to find."""
    try:
        yield
    except OptionError as error:
        file = click.get_current_context().meta.get(_FILE)
        if file is None or not str(error).startswith("tool "):
            raise
        raise OptionError(f"--tools: {file}: {error}") from None


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
        help="Tools that the model may call, as JSON: OpenAI definitions, or commands; - is stdin. Nothing is run:"
        " calls are printed as JSON lines.",
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
