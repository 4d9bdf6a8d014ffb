"""`edgellm completion`: the script with which a shell completes the command line."""

import click

from edgellm.cli.options import AdvisedChoice
from edgellm.cli.shell_completion import SHELLS, VARIABLE, shell_class


@click.command("completion")
@click.argument("shell", type=AdvisedChoice(SHELLS, "give bash, zsh or fish"))
def command(shell: str) -> None:
    """Print the script with which SHELL completes commands, options, values and models.

    \b
    bash:  edgellm completion bash >> ~/.bashrc
    zsh:   edgellm completion zsh >> ~/.zshrc
    fish:  edgellm completion fish > ~/.config/fish/completions/edgellm.fish
    """
    script = shell_class(shell)(click.get_current_context().find_root().command, {}, "edgellm", VARIABLE)
    # `source()` would run bash to find its version.
    click.echo(script.source_template % script.source_vars())
