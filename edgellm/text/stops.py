"""Stop strings, found even where they span tokens."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through until one of the strings appears; holds back what may be the beginning of one."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """The text that is now known to come before any stop string; sets `found` at the first of them."""
        if not self._strings:
            return text
        self._held += text
        starts = [at for at in map(self._held.find, self._strings) if at >= 0]
        if starts:
            self.found = True
            passed, self._held = self._held[: min(starts)], ""
            return passed
        keep = max(map(self._overlap, self._strings))
        passed, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return passed

    def flush(self) -> str:
        """What was held back: nothing more will come."""
        rest, self._held = self._held, ""
        return rest

    def _overlap(self, string: str) -> int:
        """Length of the longest end of the held text that `string` begins with."""
        longest = min(len(string) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(string[:n])), 0)
