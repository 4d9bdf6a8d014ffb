"""Calls that are interrupted between two lines of some modules."""

import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from edgellm.engine import checkpoints, kv_pages, page_node, page_tree, paged_sequence, recurrent_states
from edgellm.generate.batching import computation

_SEQUENCES = (checkpoints, kv_pages, page_node, page_tree, paged_sequence, recurrent_states)
MODULES = {module.__name__ for module in (*_SEQUENCES, computation)}
"""Those of sequences and of what is computed for them."""


def interrupt_after(lines: int, call: Callable[[], object], modules: Collection[str] = MODULES) -> bool:
    """Raise KeyboardInterrupt in a call after `lines` lines of `modules`; False if it ends before."""
    left = lines

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        nonlocal left
        if frame.f_globals.get("__name__") not in modules:
            return None
        callers = {frame.f_code.co_name, frame.f_back.f_code.co_name if frame.f_back else ""}
        if callers & {"__init__", "__del__"}:  # there an interrupt may lose pages, which is no harm
            return None
        left -= event == "line"
        if event == "line" and left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
