"""Where `edgellm convert` and `edgellm quantize` put the file that they make."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click


def output_path(out: str | None, name: Callable[[], str], type: str, force: bool, sources: Sequence[Path] = ()) -> str:
    """Where the new file goes: to `out`, or here, as `name()` with its type; checked before anything is fetched.

    It may be none of `sources`. Raises click.UsageError for stdout, OptionError for an unknown type, EdgeLLMError where
    no file can be written.
    """
    from converters.default_name import file_name
    from converters.quant_mixes import mix_name
    from converters.target import check_target

    if out == "-":
        raise click.UsageError("a GGUF file cannot go to stdout, as it is written out of order: give a file's name.")
    target = file_name(name(), mix_name(type)) if out is None else out
    check_target(target, sources, force=force)
    return target
