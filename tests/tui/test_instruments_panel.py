"""The rows of the panel."""

from dataclasses import replace

import pytest

from support.instrument_readings import (
    ALL,
    DECODE,
    DROPPING,
    LOADING,
    MEMORY,
    PREFILL,
    WRITING_REPLY,
)
from tui.instruments.bars import level
from tui.instruments.metric_row import BarValue, SparklineValue, TextValue
from tui.instruments.metric_values import metric_values
from tui.instruments.metrics import SECTIONS


def test_the_panel_says_something_about_every_entry_and_nothing_else() -> None:
    names = {entry.name for entries in SECTIONS.values() for entry in entries}
    for activity in ALL:
        assert set(metric_values(activity, MEMORY)) == set(metric_values(activity, None)) == names


def test_the_panel_by_hand() -> None:
    shown = metric_values(DECODE, MEMORY)
    figures = {name: value.text for name, value in shown.items() if isinstance(value, TextValue)}
    assert figures == {
        "model": "qwen3-1.7b",
        "phase": "▼ writing",
        "read": "2,048 of 2,048",
        "left": "–",
        "reused": "1,912 of 2,048",
        "diverged": "token 1,912",
        "around": "…template date",
        "prefill": "310.5 t/s",
        "ttft": "0.21 s",
        "now": "45.3 t/s",
        "mean": "44.9 t/s",
        "itl": "22 /  24 ms",
        "mbu": "0.84",
        "drafter": "–",
        "drafts": "–",
        "guided": "–",
        "context": "2,176 of 4,096  53%",
        "overflow": "stop",
        "dropped": "–",
        "threads": "2",
        "gpu": "12 of 28",
        "weights": "–",
        "process": "1.21 GB",
        "free": "5.23 GB",
    }
    assert shown["spark"] == SparklineValue((22.1,) * 20, 22.1)
    assert shown["gauge"] == BarValue(2176 / 4096, level(0.5))


@pytest.mark.parametrize(
    ("resident", "expected"),
    [(None, "–"), (0, "0 bytes of 18.6 GB"), (4_200_000_000, "4.2 GB of 18.6 GB"), (18_600_000_000, "all of 18.6 GB")],
)
def test_the_part_of_the_model_in_memory(resident: int | None, expected: str) -> None:
    shown = metric_values(replace(DECODE, resident=resident, weights=18_600_000_000), MEMORY)
    assert shown["weights"] == TextValue(expected)


def test_the_panel_while_the_prompt_is_read() -> None:
    shown = metric_values(PREFILL, MEMORY)
    assert shown["progress"] == BarValue(0.75, "$text-accent")  # 1,024 reused and 512 read, of 2,048
    assert (shown["left"], shown["read"]) == (TextValue("13 s"), TextValue("1,536 of 2,048"))
    assert isinstance(shown["ttft"], TextValue) and shown["ttft"].text == "1.24 s"


def test_what_is_read_again_when_the_context_slides_is_not_of_the_prompt() -> None:
    live = replace(WRITING_REPLY, prefill_done=1000, prefill_total=1500)  # of the prompt 136 were to be read
    shown = metric_values(replace(DROPPING, live=live), None)
    assert (shown["read"], shown["progress"]) == (TextValue("1,000 of 1,500"), BarValue(1000 / 1500, "$text-accent"))


def test_the_panel_says_what_is_compiled() -> None:
    assert metric_values(LOADING, None)["phase"] == TextValue("◌ compiling 3 of 12 kernels", "$text-warning")
