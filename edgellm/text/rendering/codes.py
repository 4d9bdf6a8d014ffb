"""The codes of the messages that the child process sends to its parent."""

READY, ANSWER, LAST = range(3)
"""READY is sent once, first. ANSWER and LAST are replies; after LAST the process ends."""
