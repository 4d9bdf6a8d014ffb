"""`python -m edgellm` is the `edgellm` command; like the command, it imports nothing from the current folder."""

import os
import sys
from contextlib import suppress

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (pathlib costs 5 ms)

with suppress(OSError):  # the current folder may be deleted
    if sys.path[:1] == [os.getcwd()] != [_ROOT]:  # noqa: PTH109 (the same)
        del sys.path[0]

from edgellm.entry import main  # noqa: E402 (after the change of sys.path)

main()
