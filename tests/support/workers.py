"""How tests are distributed over worker processes, one for each CPU."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from edgellm.system.machine import usable_cpus
from kquants import jit
from kquants.compiler import cache, compile_workers
from kquants.compiler.kernel_names import MODULE_BY_KERNEL

MOST_WORKERS = 8
"""Each takes up to 2 GB."""

FIRST = ("test_cpus.py",)
"""Files whose tests are distributed one by one, by their parameter, before all others: each takes minutes."""


class ByFile(LoadFileScheduling):
    """All tests of a file run in one worker, but those of FIRST in one for each parameter."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return f"{file}{test[test.find('[') :]}" if file.endswith(FIRST) and "[" in test else file


def count(arguments: Iterable[str]) -> int:
    """Workers for what is given on the command line: none for a single file or test."""
    paths = list(arguments)
    if len(paths) == 1 and not Path(paths[0]).is_dir():
        return 0
    return max(1, min(int(usable_cpus()), MOST_WORKERS))


def longest_first(item: pytest.Item) -> int:
    """The rank of a test among the others; tests of the same rank stay in their order."""
    if item.path.name in FIRST:
        return 0
    return next((rank for rank, mark in enumerate(("cpus", "slow", "gpu"), 1) if item.get_closest_marker(mark)), 9)


def compile_all(folder: Path) -> None:
    """Compile all kernels that the folder lacks, on all CPUs."""
    with cache.open_cache(folder) as opened:
        assert opened, f"others may write to {folder}"
        files = {name: jit.file_name(name, opened) for name in MODULE_BY_KERNEL}
        missing = [name for name in MODULE_BY_KERNEL if opened.read(files[name]) is None]
        if missing:
            compile_workers.compile_missing(
                missing, lambda name, code: opened.write(files[name], code), lambda compiled: None
            )
