"""What the user gives for `--type dynamic`: how large the file may be, and a text."""

import re
from dataclasses import dataclass
from math import ceil

from converters.streaming import Progress
from edgellm.errors import OptionError
from edgellm.fmt import printable

DYNAMIC = "dynamic"
"""The name of the recipe."""

_UNITS = {"": 1, **{unit: 1000**i for i, unit in enumerate("kmgt", 1)}}
_BINARY_UNITS = {f"{unit}i": 1024**i for i, unit in enumerate("kmgt", 1)}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.ASCII | re.IGNORECASE)
_LEAST_BITS, _MOST_BITS = 1, 32


@dataclass(frozen=True)
class DynamicSettings:
    """`nbytes` of the file or `bits` per weight at most, one of which is None, and the text that the model reads.

    `measuring` is called with (tensors measured, all), `compiling` with (kernels compiled, all).
    """

    nbytes: int | None
    bits: float | None
    text: str
    measuring: Progress
    compiling: Progress | None

    def room(self, weights: int, others: int) -> int:
        """The bytes for tensors with `weights` weights in a file in which other things take `others` bytes."""
        return self.nbytes - others if self.nbytes is not None else int((self.bits or 0) * weights / 8)

    def least(self, nbytes: int, weights: int, others: int) -> str:
        """The option, rounded up, that leaves at least `nbytes` bytes for tensors; arguments are those of `room`."""
        if self.nbytes is not None:
            return f"--size {_rounded_up(nbytes + others)}"
        return f"--bits {ceil(800 * nbytes / weights) / 100:.2f}"


def dynamic_settings(
    type: str,
    size: str | None,
    bits: float | None,
    calibration: str | None,
    measuring: Progress | None,
    compiling: Progress | None,
) -> DynamicSettings | None:
    """The settings if the type is "dynamic", else None. Raises OptionError for what is missing, invalid, or in vain."""
    if type.lower() != DYNAMIC:
        if size is not None or bits is not None or calibration is not None:
            raise OptionError("--size, --bits and --calibration belong to --type dynamic; leave them out")
        return None
    if (size is None) == (bits is None):
        raise OptionError("--type dynamic needs one of --size, such as 4.5GB, and --bits, such as 4.2")
    if bits is not None and not _LEAST_BITS <= bits <= _MOST_BITS:
        raise OptionError(f"--bits {bits:g}: give bits per weight, {_LEAST_BITS} to {_MOST_BITS}, such as 4.2")
    if calibration is None:
        raise OptionError("--type dynamic needs --calibration TEXT: what the model reads while tensors are measured")
    nbytes = None if size is None else parse_size(size)
    return DynamicSettings(nbytes, bits, calibration, measuring or (lambda done, total: None), compiling)


def _rounded_up(nbytes: int) -> str:
    """A size as `parse_size` reads it: at least `nbytes`, at most 1 % more."""
    power = next(i for i in range(5) if nbytes < 1000 ** (i + 1) or i == 4)
    return f"{nbytes}B" if not power else f"{ceil(nbytes / 10 ** (3 * power - 2)) / 100:.2f}{'kMGT'[power - 1]}B"


def parse_size(text: str) -> int:
    """Bytes of a size such as "4.5GB", "800 MB" or "4GiB". Raises OptionError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise OptionError(f"--size {printable(text)}: give a size such as 4.5GB or 800MB")
    number, unit = match.groups()
    nbytes: int = round(float(number) * (_UNITS | _BINARY_UNITS)[(unit or "").lower()])
    return nbytes
