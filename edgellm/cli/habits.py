"""Names that people bring from other programs: taken where the meaning is the same, else answered with ours."""

from collections.abc import Iterator

import click

from edgellm.alike import OTHER_NAMES

COMMANDS = {
    "delete": "rm",
    "download": "pull",
    "ls": "list",
    "ppl": "perplexity",
    "remove": "rm",
    "show": "info",
}
"""Commands of other programs that do what ours do."""

ADVICE = {
    "create": "`edgellm convert` makes a model file from a checkpoint, `edgellm quantize` from another file",
    "ps": "no model stays in memory after its command; `edgellm list` shows those on this machine",
    "run": "`edgellm chat MODEL` talks with a model, `edgellm generate MODEL -p TEXT` writes one reply",
    "search": "`edgellm pull` shows models to begin with, and gets any other by its name on Hugging Face",
    "serve": "`edgellm generate MODEL` is for scripts, `from edgellm import Model` for programs in Python",
    "stop": "no model stays in memory after its command; Ctrl-C stops one that runs",
}
"""What to do here in place of commands that edgellm does not have."""

_OPTIONS = {
    "-c": "--ctx",
    "-cnv": "--chat",
    "-ngl": "--gpu-layers",
    "-no-cnv": "--raw",
    "-s": "--seed",
    "-sys": "--system",
    "-t": "--threads",
    "--chat-template-file": "--template",
    "--conversation": "--chat",
    "--no-conversation": "--raw",
} | {f"--{theirs.replace('_', '-')}": f"--{ours.replace('_', '-')}" for theirs, ours in OTHER_NAMES.items()}
_MODEL = ("-m", "--model")


def translated(command: click.Command, args: list[str]) -> list[str]:
    """The arguments of a command with its own names in place of others', and the model of `-m MODEL` in its place.

    Only options that the command does not have itself are looked at; values, and what is behind `--`, stay.
    """
    options = {name: option for option in command.params for name in option.opts}
    takes_model = any(isinstance(param, click.Argument) and param.name == "model" for param in command.params)
    models, others = list[str](), list[str]()
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            others += [word, *words]
        elif takes_model and name in _MODEL and name not in options:
            following = [value] if equals else _next(words)
            models += following
            others += [] if following else [word]
        else:
            own = _own(name, options) if word.startswith("-") else name
            others.append(own + equals + value)
            if own in options and not equals and _takes_value(options[own]):
                others += _next(words)
    return models + others


def _own(name: str, options: dict[str, click.Parameter]) -> str:
    """The command's own name of an option; the same if there is none."""
    dashed = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
    return next((own for own in (name, _OPTIONS.get(dashed, ""), dashed) if own in options), name)


def _takes_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.is_flag and not option.count


def _next(words: Iterator[str]) -> list[str]:
    return [word for word in [next(words, None)] if word is not None]
