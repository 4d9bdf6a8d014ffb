"""The codes of what the child process says to its parent."""

READY, ANSWER, LAST = range(3)
"""READY comes first, once. After LAST, which is an answer, too, the process ends."""
