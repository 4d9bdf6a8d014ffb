"""Several generations at once, each in a thread of its own, so that the session computes them together."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event

from edgellm.engine.protocol import Stopped
from edgellm.generate.generation import Generation
from edgellm.generate.results import Completion

MOST_AT_ONCE = 16
"""Generations that run at once; the others wait. A step of 16 sequences still reads all weights once."""


def complete_all(starts: Sequence[Callable[[], Generation]]) -> list[Completion]:
    """The completions of generations, in their order. After an error or Ctrl-C the others are cancelled; it is raised.

    `starts` are called in threads, each to start a generation.
    """
    running, cancelled = dict[int, Generation](), Event()

    def complete(i: int) -> Completion:
        generation = running[i] = starts[i]()
        if cancelled.is_set():
            raise Stopped
        completion = generation.completion()
        del running[i]
        return completion

    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(starts)) or 1) as pool:
        done = [pool.submit(complete, i) for i in range(len(starts))]
        try:
            failed = next((each for each in wait(done, return_when=FIRST_EXCEPTION).done if each.exception()), None)
            return [each.result() for each in ([failed] if failed else done)]
        finally:
            cancelled.set()
            for each in done:
                each.cancel()
            for generation in list(running.values()):
                generation.cancel()
