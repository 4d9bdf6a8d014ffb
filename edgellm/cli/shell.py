"""What shells are told of the command line, to complete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_EDGELLM_COMPLETE"
"""Set by a shell's script when it asks what a command line can become."""


def answer(cli: click.Group, instruction: str) -> int:
    """Answer a shell's question; the exit code."""
    from click.shell_completion import shell_complete

    return shell_complete(cli, {}, "edgellm", VARIABLE, instruction)


def model_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The models whose name begins so; the item of the kind `file` lets the shell offer files where there are none."""
    from click.shell_completion import CompletionItem

    from edgellm.models.names import labels
    from edgellm.models.stores import stored_models

    names = (name for name in labels(stored_models()) if name.startswith(begun))
    return [CompletionItem(begun, type="file"), *map(CompletionItem, names)]
