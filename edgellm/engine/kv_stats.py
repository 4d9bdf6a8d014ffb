"""How many KV pages an engine has, and what they are used for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KVStats:
    """KV pages of all layers that see the same cells, each of `page_tokens` tokens, summed over these groups.

    Memory was taken for `pages`. Requests use `used_pages` of them now; `cached_pages` are those of the prefix cache
    alone; the others are free. `bytes` of memory are taken on the CPU, with the states of recurrent layers, of the
    `budget_bytes` that may be taken. Those of a head that drafts count, too.
    """

    pages: int
    used_pages: int
    cached_pages: int
    page_tokens: int
    bytes: int
    budget_bytes: int

    def __add__(self, other: "KVStats") -> "KVStats":
        """The sum of the figures of two models whose pages have as many tokens."""
        return KVStats(
            self.pages + other.pages,
            self.used_pages + other.used_pages,
            self.cached_pages + other.cached_pages,
            self.page_tokens,
            self.bytes + other.bytes,
            self.budget_bytes + other.budget_bytes,
        )
