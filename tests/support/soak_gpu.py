"""Let a GPU fail at many moments, and see that every reply is the CPU's: `python -m support.soak_gpu [TIMES [SEED]]`.

Each time a fault out of FAULTS comes at a random submission to the driver (see vulkan_faults.c), or the process is
killed at a random time. Printed is how often which line was told, and what was left behind.
"""

import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import psutil

from edgellm import Model
from support.gpus import TINY
from support.make_gguf import write_model
from support.vulkan import build

FAULTS = {
    "vkQueueSubmit": (-4, -2, -1),
    "vkWaitSemaphores": (-4,),
    "vkGetSemaphoreCounterValue": (-4,),
    "vkBeginCommandBuffer": (-2, -1),
    "vkCreateComputePipelines": (-2,),
    "vkAllocateMemory": (-2,),
}
"""Functions of the driver, and what they may say: the device is lost, no memory there, no memory here."""

_SUBMISSIONS, _SECONDS = 18, 1.2


def replies(path: Path, layers: int | str) -> list[list[int]]:
    """Two replies of a model."""
    with Model.open(path, threads=1, gpu_layers=layers) as model:
        return [
            model.generate(prompt, max_tokens=8, temp=0, logit_bias={2: -np.inf}).tokens
            for prompt in ("a b c d e f", "a b c g h")
        ]


def kill_one() -> None:
    """Kill a process that this one has, if any."""
    for child in psutil.Process().children()[:1]:
        child.send_signal(signal.SIGKILL)


def fail_once(path: Path, random: Random) -> tuple[list[list[int]], list[str]]:
    """The replies while something fails, and what was told."""
    name = random.choice([*FAULTS, "", ""])
    killer = threading.Timer(random.uniform(0.2, _SECONDS), kill_one)
    if name:
        os.environ["VULKAN_FAULT"] = f"{name},{random.randint(1, _SUBMISSIONS)},{random.choice(FAULTS[name])}"
    else:
        os.environ.pop("VULKAN_FAULT", None)
        killer.start()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = replies(path, random.choice([1, 2, "all"]))
    killer.cancel()
    return made, [re.sub(r"^.*?\): ", "", str(each.message)) for each in told]


def main(times: int, seed: int) -> None:
    """Fail so many times."""
    random, lines, process = Random(seed), Counter[str](), psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        path, loader = write_model(Path(folder) / "model.gguf", **TINY), build(Path(folder))
        if not loader:
            sys.exit("this needs a C compiler and Vulkan's loader, on Linux")
        wanted = replies(path, 0)
        os.environ["LD_LIBRARY_PATH"] = str(loader)
        wrong, before = 0, 0
        for i in range(times):
            made, told = fail_once(path, random)
            wrong += made != wanted
            lines.update(told or ["nothing: it came too late"])
            before = before or process.memory_info().rss
            print(f"\r{i + 1} of {times}", end="", file=sys.stderr, flush=True)
    print(f"\r{times} times, {wrong} wrong replies, {len(process.children())} processes left,", end=" ")
    print(f"{(process.memory_info().rss - before) / 1e6:.1f} MB more memory than after the first")
    for line, n in lines.most_common():
        print(f"{n:5}  {line}")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*[*given, *[100, 0][len(given) :]])
