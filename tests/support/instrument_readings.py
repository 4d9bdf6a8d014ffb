"""Readings with frozen numbers, for the tests of the chat's instruments."""

from dataclasses import replace

from edgellm.generate.stats import Live, Stats
from tui.core.activity import Activity, Phase
from tui.core.memory import Memory

MEMORY = Memory(process=1_214_000_000, free=5_230_000_000)

_ASKED = Stats(2048, 1024, 0, None, None, None, None, None, [])
_SAID = Stats(2048, 1912, 128, 0.214, 310.5, 44.9, {"p50": 22.1, "p95": 24.4}, 0.84, [])

READING_PROMPT = Live(1.24, 512, 1024, 12.4, None, (), 1536, _ASKED, 1024, "…on the 3rd of May")
WRITING_REPLY = Live(3.2, 136, 136, 0.0, 45.3, (22.1,) * 20, 2176, _SAID, 1912, "…template date")

CLOSED = Activity()
LOADING = Activity(Phase.LOADING, "qwen3-1.7b", "compiling 3 of 12 kernels")
FRESH = Activity(Phase.READY, "qwen3-1.7b", context=4096, threads=2, blocks=28, gpu_blocks=12)
PREFILL = replace(FRESH, phase=Phase.PREFILL, live=READING_PROMPT)
DECODE = replace(FRESH, phase=Phase.DECODE, live=WRITING_REPLY)
DONE = replace(DECODE, phase=Phase.READY)
DROPPING = replace(DECODE, overflow="drop", dropped_tokens=1204, dropped_messages=4)
ALL = (CLOSED, LOADING, FRESH, PREFILL, DECODE, DONE, DROPPING)
