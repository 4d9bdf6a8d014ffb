"""Commands and options of other programs: accepted if edgellm has the same under another name, else advice."""

from collections.abc import Iterator

import click

from edgellm.cli.unsupported import unsupported_advice
from edgellm.options.aliases import OPTION_ALIASES

COMMAND_ALIASES = {
    "delete": "rm",
    "download": "pull",
    "ls": "list",
    "ppl": "perplexity",
    "remove": "rm",
    "show": "info",
}
"""From commands of other programs to ours of the same meaning."""

UNSUPPORTED_COMMANDS = {
    "cp": "a model is a file, which any program copies; `edgellm list --json` shows where it is",
    "create": "`edgellm convert` makes a model file from a checkpoint, `edgellm quantize` from another file",
    "embed": "edgellm makes no embeddings; `Model.logits` in Python has what a model gives for each token",
    "embeddings": "edgellm makes no embeddings; `Model.logits` in Python has what a model gives for each token",
    "ps": "only `edgellm serve` keeps models in memory; `edgellm list` shows those on this machine",
    "run": "`edgellm chat MODEL` talks with a model, `edgellm generate MODEL -p TEXT` writes one reply",
    "search": "`edgellm pull` lists models to begin with, and downloads any other by its name on Hugging Face",
    "push": "edgellm uploads nothing; `hf upload` does",
    "stop": "only `edgellm serve` keeps models in memory; Ctrl-C stops a command that runs",
    "version": "`edgellm --version` shows it",
}
"""From commands of other programs that edgellm does not have to what to do instead."""

_OPTIONS = {
    "-c": "--ctx",
    "-cmoe": "--cpu-moe",
    "-cnv": "--chat",
    "-md": "--draft",
    "-ncmoe": "--n-cpu-moe",
    "-ngl": "--gpu-layers",
    "-no-cnv": "--raw",
    "-r": "--stop",
    "-s": "--seed",
    "-sys": "--system",
    "-sysf": "--system-file",
    "-t": "--threads",
    "--chat-template-file": "--template",
    "--conversation": "--chat",
    "--no-conversation": "--raw",
    "--outfile": "--out",
    "--system-prompt-file": "--system-file",
} | {f"--{theirs.replace('_', '-')}": f"--{ours.replace('_', '-')}" for theirs, ours in OPTION_ALIASES.items()}

_ARGUMENT_OPTIONS = {"model": ("-m", "--model"), "file": ("-f", "--file"), "out": ("-o", "--out", "--output")}
"""From names of our arguments to options of other programs of the same meaning."""


def translate_arguments(command: click.Command, args: list[str]) -> list[str]:
    """The arguments of a command, with names of other programs replaced by ours; `-m MODEL` becomes the argument MODEL.

    Options that the command has itself, values, and everything after `--` are unchanged. Raises click.UsageError for an
    option that edgellm does not have, with what to do instead.
    """
    options = _options(command)
    arguments = {param.name or "" for param in command.params if isinstance(param, click.Argument)}
    values: dict[str, list[str]] = {argument: [] for argument in _ARGUMENT_OPTIONS}
    others = list[str]()
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            others += [word, *words]
        elif (argument := _argument_of(name, arguments)) and name not in options:
            following = [value] if equals else _next(words)
            values[argument] += following
            others += [] if following else [word]
        else:
            own = _canonical_option(name, options) if word.startswith("-") else name
            _check_known(command, options, own)
            others.append(own + equals + value)
            option = _option_with_value(own, options)
            if option and not equals and _takes_value(option):
                others += _next(words)
    return values["model"] + others + values["file"] + values["out"]


def check_group(group: click.Group, word: str) -> None:
    """Raise click.UsageError for an option of another program before the command."""
    if word in _ARGUMENT_OPTIONS["model"]:
        raise click.UsageError("a command goes before the model: edgellm chat MODEL")
    _check_known(group, _options(group), word)


def _options(command: click.Command) -> dict[str, click.Parameter]:
    return {name: option for option in command.params for name in option.opts}


def _check_known(command: click.Command, options: dict[str, click.Parameter], word: str) -> None:
    """Raise click.UsageError for an unknown option, before click reads `-fa` as `-f a`."""
    if word in options or not word.startswith("-"):
        return
    if advice := unsupported_advice(command.name or "", _dashed(word), options):
        elsewhere = "in the chat" in advice or (word.startswith("--") and _dashed(word) in advice)
        program = f"edgellm {command.name}" if elsewhere else "edgellm"
        raise click.UsageError(f"{program} has no `{word}`: {advice}")
    letters = word[1:]
    with_one_dash = len(letters) > 1 and letters[0] != "-" and letters.replace("-", "").isalpha()
    if with_one_dash and not _are_letters(letters, options):
        raise click.NoSuchOption(word)


def _are_letters(letters: str, options: dict[str, click.Parameter]) -> bool:
    """Whether the letters after a dash are options of one letter, the last perhaps with its value."""
    for at, letter in enumerate(letters):
        option = options.get(f"-{letter}")
        if option is None:
            return letter == "h" and at > 0
        if _takes_value(option):
            return not isinstance(option.type, type(click.INT)) or at == len(letters) - 1
    return True


def _option_with_value(word: str, options: dict[str, click.Parameter]) -> click.Parameter | None:
    """The option that takes the following word as its value: `-n` for `-qn`."""
    if word in options or not word.startswith("-") or word.startswith("--"):
        return options.get(word)
    before = [options.get(f"-{letter}") for letter in word[1:-1]]
    are_flags = all(option and not _takes_value(option) for option in before)
    return options.get(f"-{word[-1]}") if are_flags else None


def _argument_of(name: str, arguments: set[str]) -> str:
    """The argument of the same meaning as an option of another program; empty for any other word."""
    return next(
        (argument for argument, names in _ARGUMENT_OPTIONS.items() if argument in arguments and name in names), ""
    )


def _canonical_option(name: str, options: dict[str, click.Parameter]) -> str:
    """The command's own name for an option; `name` itself if there is none."""
    dashed = _dashed(name)
    return next((own for own in (name, _OPTIONS.get(dashed, ""), dashed) if own in options), name)


def _dashed(name: str) -> str:
    """The name with dashes instead of underscores, if it is a long option."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def _takes_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.is_flag and not option.count


def _next(words: Iterator[str]) -> list[str]:
    return [word for word in [next(words, None)] if word is not None]
