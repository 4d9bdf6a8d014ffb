"""A number of tokens, or a range from which each request draws one."""

import re
from dataclasses import dataclass
from typing import Self

_LENGTHS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True)
class Lengths:
    """All whole numbers from `least` to `most` are equally likely."""

    least: int
    most: int

    @classmethod
    def of(cls, n: int) -> Self:
        """One length."""
        return cls(n, n)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Lengths of `256` or `128-512`. Raises ValueError."""
        found = _LENGTHS.fullmatch(text)
        least, most = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if least > most:
            raise ValueError("give a number of tokens, or a range: 128-512")
        return cls(least, most)

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,}-{self.most:,}"
