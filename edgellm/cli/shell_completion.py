"""Completion of the command line in shells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem, ShellComplete

VARIABLE = "_EDGELLM_COMPLETE"
"""The environment variable that a shell's script sets when it asks for completions."""

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
"""With click's own script, bash would split the answer into shell words and remove quotes."""


def shell_class(shell: str) -> type[ShellComplete]:
    """click's completion class of a shell, with our corrections for bash and fish."""
    from click.shell_completion import BashComplete, FishComplete, get_completion_class

    class Bash(BashComplete):
        source_template = _BASH

        def format_completion(self, item: CompletionItem) -> str:
            # The backslash keeps bash from expanding the character, also within quotes that begin the word.
            return f"{item.type},{_SPECIAL.sub(_ESCAPED, item.value)}"

    class Fish(FishComplete):
        # A name may contain commas; the first comma ends the type.
        source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')

    kind = {"bash": Bash, "fish": Fish}.get(shell) or get_completion_class(shell)
    assert kind is not None
    return kind


def answer(cli: click.Group, instruction: str) -> int:
    """Print the completions for an instruction of a shell, such as `bash_complete`. Returns the exit code."""
    shell, _, action = instruction.partition("_")
    if action != "complete" or shell not in SHELLS:
        return 1
    click.echo(shell_class(shell)(cli, {}, "edgellm", VARIABLE).complete())
    return 0


def model_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names of models, and files if no name matches."""
    from edgellm.models.names import named_models

    names = [name for name, _ in named_models()]
    return [*files(context, parameter, incomplete), *_items(names, incomplete)]


def names_of_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names of models and of auxiliary files, such as heads, and files if no name matches."""
    from edgellm.models.names import unique_names
    from edgellm.models.stores import stored_models

    return [*files(context, parameter, incomplete), *_items(unique_names(stored_models()), incomplete)]


def draft_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes `auto` and `off`, names of models and heads, and files if none of these matches."""
    return [*_items(("auto", "off"), incomplete), *names_of_files(context, parameter, incomplete)]


def removable_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names that `edgellm rm` accepts."""
    from edgellm.models.removal import removable_names

    return _items(removable_names(), incomplete)


def templates(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names of built-in chat templates, and files if no name matches."""
    from edgellm.text.template import built_in_names

    return [*files(context, parameter, incomplete), *_items(built_in_names(), incomplete)]


def pre_tokenizers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes names of pre-tokenizers."""
    from edgellm.text.pretokenizers import PRE_TOKENIZERS

    return _items(PRE_TOKENIZERS, incomplete)


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete files, if nothing else matches."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def one_of(*words: str) -> Completer:
    """A completer for an option whose value is one of `words`."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _items(words, incomplete, str.casefold)

    return complete


def _items(words: Iterable[str], incomplete: str, folded: Callable[[str], Any] = str) -> list[CompletionItem]:
    """The words that begin with `incomplete`, without those that have control characters or line ends."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(w) for w in words if folded(w).startswith(folded(incomplete)) and w.isprintable()]
