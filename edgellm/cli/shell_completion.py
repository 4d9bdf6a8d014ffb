"""What shells are told of the command line, to complete it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem, ShellComplete

VARIABLE = "_EDGELLM_COMPLETE"
"""Set by a shell's script when it asks what a command line can become."""

SHELLS = ("bash", "zsh", "fish")
_SPECIAL, _ESCAPED = re.compile(r"([^\w@%+=:,./-])"), r"\\\1"

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response line
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while read -r line; do
        case $line in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            file,*) compopt -o default ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""click's own script has bash read the answer as shell words, without their quotes."""


def shell_class(shell: str) -> type[ShellComplete]:
    """How a shell is spoken with."""
    from click.shell_completion import BashComplete, FishComplete, get_completion_class

    class Bash(BashComplete):
        source_template = _BASH

        def format_completion(self, item: CompletionItem) -> str:
            # Within any quotes that the word begins with, too, a backslash leaves nothing for bash to expand.
            return f"{item.type},{_SPECIAL.sub(_ESCAPED, item.value)}"

    class Fish(FishComplete):
        # A name may have commas, behind the one that ends the type.
        source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')

    kind = {"bash": Bash, "fish": Fish}.get(shell) or get_completion_class(shell)
    assert kind is not None
    return kind


def answer(cli: click.Group, instruction: str) -> int:
    """Answer a shell's question, such as `bash_complete`; the exit code."""
    shell, _, asked = instruction.partition("_")
    if asked != "complete" or shell not in SHELLS:
        return 1
    click.echo(shell_class(shell)(cli, {}, "edgellm", VARIABLE).complete())
    return 0


def model_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The models whose name begins so, and files where there are none."""
    from edgellm.models.names import unique_names
    from edgellm.models.stores import stored_models

    return [*files(context, parameter, begun), *_items(unique_names(stored_models()), begun)]


def removable_models(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """What `edgellm rm` removes, as far as it begins so."""
    from edgellm.models.removal import removable_names

    return _items(removable_names(), begun)


def templates(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The built-in chat templates whose name begins so, and files where there are none."""
    from edgellm.text.template import built_in_names

    return [*files(context, parameter, begun), *_items(built_in_names(), begun)]


def pre_tokenizers(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The pre-tokenizers whose name begins so."""
    from edgellm.text.pretokenizers import PRE_TOKENIZERS

    return _items(PRE_TOKENIZERS, begun)


def files(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Tells the shell to offer files, if nothing else is offered."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]


def one_of(*words: str) -> Completer:
    """Completes an option that is one of a few words."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        return _items(words, begun, str.casefold)

    return complete


def _items(words: Iterable[str], begun: str, folded: Callable[[str], Any] = str) -> list[CompletionItem]:
    """Those that begin so. What would control a terminal or break the lines of an answer is never offered."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(w) for w in words if folded(w).startswith(folded(begun)) and w.isprintable()]
