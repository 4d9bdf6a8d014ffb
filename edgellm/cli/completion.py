"""`edgellm completion`: what a shell needs to complete the command line."""

import click

from edgellm.cli.shell import VARIABLE


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script with which SHELL completes commands, options and models.

    \b
    bash:  edgellm completion bash >> ~/.bashrc
    zsh:   edgellm completion zsh >> ~/.zshrc
    fish:  edgellm completion fish > ~/.config/fish/completions/edgellm.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "edgellm", VARIABLE)
    # Not `source()`, which runs bash to learn its version.
    click.echo(script.source_template % script.source_vars())
