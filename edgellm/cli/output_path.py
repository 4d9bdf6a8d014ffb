"""The output file of `edgellm convert` and `edgellm quantize`."""

from collections.abc import Callable, Iterable
from os import PathLike

import click

_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def output_path(
    out: str | None, name: Callable[[], str], type: str, force: bool, sources: Iterable[str | PathLike[str] | None]
) -> str:
    """The path of the new file: `out`, or a file in the current folder named after `name()` and its type.

    It is checked before anything is downloaded, and must be none of `sources`; those that are None do not count. Raises
    click.UsageError for stdout, OptionError for an unknown type, EdgeLLMError if no file can be written there.
    """
    from converters.default_name import file_name
    from converters.dynamic.settings import DYNAMIC
    from converters.quant_mixes import mix_name
    from converters.target import check_target

    if is_stdout(out):
        raise click.UsageError("a GGUF file cannot go to stdout, as it is written out of order: give a file's name.")
    label = DYNAMIC if type.lower() == DYNAMIC else mix_name(type)
    target = file_name(name(), label) if out is None else out
    check_target(target, sources, force=force)
    return target


def is_stdout(out: str | None) -> bool:
    """Whether a name of a file means stdout."""
    return out in _STDOUT
