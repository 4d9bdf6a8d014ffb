"""The texts of the instruments: numbers, bars, the status line, the line below a reply."""

from dataclasses import replace

import pytest

from edgellm.generate.stats import Stats
from support.imports import HEAVY, loaded
from support.instrument_readings import (
    ALL,
    DECODE,
    DONE,
    DROPPING,
    FRESH,
    LOADING,
    MEMORY,
    PREFILL,
    READING_PROMPT,
    WRITING_REPLY,
)
from tui.core.activity import Activity, Phase
from tui.core.past_stats import past_live
from tui.instruments.bars import bar, level, share, sparkline
from tui.instruments.metric_row import TextValue
from tui.instruments.metric_values import metric_values
from tui.instruments.numbers import Words, milliseconds, part_of, remaining, seconds, speed
from tui.instruments.reply_stats import reply_stats_line
from tui.instruments.status_layout import columns, fit_segments
from tui.instruments.status_text import status_text

STATS = {
    "prompt_tokens": 2048,
    "cached_tokens": 1912,
    "generated_tokens": 128,
    "ttft_s": 0.214,
    "decode_tps": 45.31,
    "itl_ms": {"p50": 22.0, "p95": 24.4},
    "mbu": 0.84,
}


def plain(words: Words) -> str:
    return "".join(text for text, _ in words)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0.00 s"), (0.214, "0.21 s"), (9.994, "9.99 s"), (9.996, "10.0 s"), (99.96, "100 s"), (1234.0, "1,234 s")],
)
def test_seconds_have_three_digits(value: float, expected: str) -> None:
    assert seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, "1 s"), (12.1, "13 s"), (59.0, "59 s"), (59.5, "1:00 min"), (100.0, "1:40 min")]
)
def test_what_remains_is_rounded_up(value: float, expected: str) -> None:
    assert remaining(value) == expected


def test_speeds_and_times_between_tokens() -> None:
    assert [speed(v) for v in (7.46, 45.3, 999.94, 999.96, 3208.4)] == [
        *("7.5 t/s", "45.3 t/s", "999.9 t/s", "1,000 t/s", "3,208 t/s"),
    ]
    assert [milliseconds(v) for v in (0.62, 9.94, 9.96, 24.4, 240.0)] == ["0.6", "9.9", "10", "24", "240"]


def test_a_part_is_as_wide_as_its_whole() -> None:
    assert part_of(12, 4096) == "   12 of 4,096"
    assert part_of(1912, 2048) == "1,912 of 2,048"


@pytest.mark.parametrize("say", [seconds, remaining, speed, milliseconds])
def test_what_is_not_known_is_a_dash(say: object) -> None:
    assert callable(say) and say(None) == "–"


@pytest.mark.parametrize(
    ("filled", "drawn"),
    [(0, "────────"), (0.001, "╸───────"), (0.5, "━━━━────"), (0.57, "━━━━╸───"), (0.999, "━━━━━━━╸"), (1, "━━━━━━━━")],
)
def test_a_bar_fills_by_half_characters(filled: float, drawn: str) -> None:
    assert plain(bar(filled, 8)) == drawn


def test_a_gauge_warns_and_then_alarms() -> None:
    assert len({level(0), level(0.74)}) == 1
    assert (level(0.75), level(0.89)) == ("$text-warning", "$text-warning")
    assert (level(0.9), level(1)) == ("$text-error", "$text-error")


def test_a_share_stays_between_nothing_and_all() -> None:
    assert (share(5, 0), share(1, 4), share(9, 4), share(-1, 4)) == (0, 0.25, 1, 0)


def test_a_steady_stream_is_a_level_line_and_a_late_token_a_peak() -> None:
    assert sparkline([20, 20, 40, 20, 5, 0, 1000], 20, 8) == " ▅▅█▅▂▁█"


def test_a_new_time_leaves_the_older_ones_as_they_looked() -> None:
    before, after = sparkline([20, 25, 15, 30], 20, 4), sparkline([20, 25, 15, 30, 500], 20, 4)
    assert after[:3] == before[1:]


def test_a_sparkline_of_nothing_keeps_its_place() -> None:
    assert sparkline([], 20, 4) == sparkline([20], None, 4) == "    "


def test_the_line_under_a_reply() -> None:
    assert reply_stats_line(STATS, "eog") == (
        "TTFT 0.21 s · decode 45.3 t/s · 128 generated · ITL p95 24 ms · MBU 0.84 · 1,912 of 2,048 cached"
    )


def test_what_a_schema_excluded_is_with_the_figures_also_later() -> None:
    guided = {"tokens": 9, "mean": 0.124, "worst": 0.8, "worst_at": 3}
    assert reply_stats_line({"guided": guided}, "eog") == "guide excluded 12%, at most 80%"
    assert reply_stats_line({"guided": {"mean": "0", "worst": 1}}, "eog") == ""
    rows = metric_values(replace(DONE, live=past_live({**STATS, "guided": guided}, 0)), MEMORY)
    assert rows["guided"] == TextValue("12% /  80%")
    assert metric_values(replace(DONE, live=past_live(STATS, 0)), MEMORY)["guided"] == TextValue("–")


def test_what_drafts_gave_is_with_the_figures_also_later() -> None:
    sources = {name: {"drafted": n, "accepted": n // 2, "seconds": 0.0} for name, n in (("lookup", 12), ("model", 400))}
    stats = {**STATS, "drafted": 412, "accepted": 206, "tokens_per_step": 2.34, "drafts": sources}
    assert reply_stats_line(stats, "eog").endswith(" · drafts 50% of 412")
    assert reply_stats_line({"drafted": "\x1b", "accepted": 1}, "eog") == ""
    rows = metric_values(replace(DONE, live=past_live(stats, 0)), MEMORY)
    assert rows["drafts"] == TextValue("50% · 2.3/step · model")
    assert metric_values(replace(DONE, live=past_live(STATS, 0)), MEMORY)["drafts"] == TextValue("–")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        *[("cancelled", "stopped by you"), ("length", "cut off"), ("error", "broken off")],
        *[("stop", "ended at a stop text"), (None, "not finished")],
    ],
)
def test_another_end_is_named_before_the_figures(reason: str | None, expected: str) -> None:
    assert reply_stats_line(STATS, reason).startswith(expected)


def test_what_the_model_did_not_see_comes_first_of_all() -> None:
    assert reply_stats_line(STATS, "cancelled", 1204).startswith("did not see 1,204 tokens · stopped by you · TTFT")


def test_a_line_without_figures_says_what_is_known() -> None:
    assert (
        reply_stats_line({"generated_tokens": 1, "ttft_s": None, "itl_ms": None, "cached_tokens": 0}, "eog")
        == "1 generated"
    )
    assert reply_stats_line({}, "eog") == ""


def test_stats_of_a_foreign_file_cannot_break_the_line() -> None:
    foreign = {"ttft_s": "\x1b[2J", "decode_tps": float("nan"), "mbu": True, "itl_ms": [3], "prompt_tokens": 10**400}
    assert reply_stats_line(foreign | {"generated_tokens": -1, "cached_tokens": 3}, "\x1b]0;x") == ""


def test_what_fits_is_taken_by_importance_and_grows_where_there_is_room() -> None:
    def words(n: int) -> Words:
        return (("x" * n, ""),)

    forms = {"first": [words(4)], "second": [words(6), words(20)], "third": [words(3)]}
    order = "first second third second"
    assert list(fit_segments(forms, order.split(), 11)) == ["first", "third"]  # 4 + 2 + 6 is too wide, 4 + 2 + 3 is not
    assert [columns(w) for w in fit_segments(forms, order.split(), 30).values()] == [4, 6, 3]
    assert [columns(w) for w in fit_segments(forms, order.split(), 31).values()] == [
        4,
        20,
        3,
    ]  # and two gaps of 2


@pytest.mark.parametrize("activity", ALL, ids=lambda activity: activity.phase.name)
def test_the_line_is_never_wider_than_its_place(activity: Activity) -> None:
    for width in range(201):
        assert columns(status_text(activity, MEMORY, width)) == width


@pytest.mark.parametrize(
    ("activity", "width", "expected"),
    [
        (LOADING, 38, "◌ loading  compiling 3 of 12 kernels  "),
        (PREFILL, 38, "▲ reading  ━━━━━━──  13 s left        "),
        (DECODE, 38, "▼ writing   45.3 t/s      context  53%"),
        (DECODE, 58, "▼ writing  TTFT 0.21 s   45.3 t/s    context ━━━━────  53%"),
        (PREFILL, 78, "▲ reading  TTFT 1.24 s  ━━━━━━── 1,536 of 2,048  13 s left        context  38%"),
        (DECODE, 78, "▼ writing  TTFT 0.21 s   45.3 t/s  ▅▅▅▅▅▅▅▅    context ━━━━──── 2,176 of 4,096"),
        (DONE, 78, "● ready    mean  44.9 t/s          qwen3-1.7b  context ━━━━──── 2,176 of 4,096"),
        (replace(DONE, uses="3 tools"), 38, "● ready          3 tools  context  53%"),
        (replace(DECODE, uses="schema"), 58, "▼ writing  TTFT 0.21 s   45.3 t/s     schema  context  53%"),
        (DROPPING, 58, "▼ writing   45.3 t/s  dropped 1,204  context ━━━━────  53%"),
        (DROPPING, 78, "▼ writing  TTFT 0.21 s   45.3 t/s    dropped 1,204 (drop oldest)  context  53%"),
    ],
)
def test_narrow_lines_say_what_matters_most(activity: Activity, width: int, expected: str) -> None:
    assert plain(status_text(activity, MEMORY, width)) == expected


def test_a_wide_line_says_all() -> None:
    line = plain(status_text(DECODE, MEMORY, 240))
    for expected in (
        *("TTFT 0.21 s", "45.3 t/s", "mean  44.9 t/s", "p50  22 p95  24 ms", "MBU 0.84", "1,912 of 2,048 reused"),
        *("2 threads", "GPU 12 of 28 blocks", "memory 1.21 GB, free 5.23 GB", "qwen3-1.7b", "2,176 of 4,096"),
    ):
        assert expected in line


@pytest.mark.parametrize("width", [38, 58, 78, 118, 200])
def test_nothing_moves_while_figures_change(width: int) -> None:
    """The words of the line stay where they are, whatever the numbers."""
    stats = Stats(2048, 1912, 9, 12.3, None, 7.25, {"p50": 101.0, "p95": 512.0}, None, [])
    other = replace(WRITING_REPLY, recent_tps=1033.0, gaps_ms=(8.0,), context_used=7, stats=stats)
    lines = [plain(status_text(replace(DECODE, live=live), MEMORY, width)) for live in (WRITING_REPLY, other)]
    places = [[line.find(word) for word in ("TTFT", "t/s", "mean", "p50", "p95", "MBU", "context")] for line in lines]
    assert places[0] == places[1]


def test_what_is_dropped_and_by_which_policy_is_shown_while_it_happens() -> None:
    assert "context full: dropped 1,204 tokens (drop oldest)" in plain(status_text(DROPPING, MEMORY, 160))
    assert metric_values(DROPPING, None)["overflow"] == TextValue("drop oldest")
    assert metric_values(DROPPING, None)["dropped"] == TextValue("1,204 tokens", "$text-warning")
    slides = replace(DROPPING, overflow="window", phase=Phase.READY)
    assert "dropped 1,204 tokens (sliding window)" in plain(status_text(slides, MEMORY, 160))
    later = plain(status_text(replace(DROPPING, overflow="stop"), MEMORY, 160))
    assert "dropped 1,204 tokens" in later and "(" not in later  # it was not that policy


def test_the_context_is_that_of_the_conversation_before_its_model_writes() -> None:
    resumed = replace(FRESH, counted=1024)
    assert "1,024 of 4,096" in plain(status_text(resumed, MEMORY, 120))
    assert metric_values(resumed, None)["context"] == TextValue("1,024 of 4,096  25%")
    assert replace(FRESH, counted=9000).used == 4096  # most of it was dropped


def test_a_share_that_is_not_known_takes_no_place_at_rest() -> None:
    live = replace(WRITING_REPLY, stats=replace(WRITING_REPLY.stats, mbu=None))
    assert "MBU    –" in plain(status_text(replace(DECODE, live=live), MEMORY, 160))
    assert "MBU" not in plain(status_text(replace(DONE, live=live), MEMORY, 160))


def test_the_counter_to_the_first_token_is_the_sessions_time() -> None:
    line = plain(status_text(replace(PREFILL, live=replace(READING_PROMPT, elapsed_s=7.5)), None, 78))
    assert "TTFT 7.50 s" in line
    stopped = plain(status_text(replace(PREFILL, phase=Phase.READY), None, 120))
    assert "7.50" not in stopped and "TTFT      –" in stopped


def test_a_models_name_cannot_drive_the_terminal() -> None:
    line = plain(status_text(replace(FRESH, model="a\x1b[2Jb\nc"), None, 120))
    assert line.isprintable() and "a\\x1b[2Jb" in line


def test_the_widgets_bring_no_engine() -> None:
    modules = loaded("from tui.instruments import Panel, StatusLine")
    assert "tui.instruments.panel" in modules
    assert not modules & (HEAVY | {"edgellm.perf.mbu", "edgellm.model"}) - {"textual"}


def test_the_line_under_a_reply_needs_no_screen() -> None:
    assert not loaded("from tui.instruments.reply_stats import reply_stats_line") & HEAVY
