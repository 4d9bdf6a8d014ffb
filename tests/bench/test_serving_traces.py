"""Traces of requests: the published formats, and malformed lines."""

from pathlib import Path

import numpy as np
import pytest

from edgellm import EdgeLLMError
from edgellm.bench.serving.lengths import Lengths
from edgellm.bench.serving.options import ServingOptions
from edgellm.bench.serving.requests import poisson_arrivals, random_rows, trace_rows
from edgellm.bench.serving.traces import TraceReader, TraceRow

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
MOONCAKE = '{"timestamp": 3052, "input_length": 1025, "output_length": 7, "hash_ids": [0, 28, 5]}\n'


def rows_of(folder: Path, text: str) -> list[TraceRow]:
    path = folder / "trace"
    path.write_text(text, encoding="utf-8")
    return list(TraceReader(path).rows())


def test_azure(tmp_path: Path) -> None:
    text = f"{AZURE}2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.2299600,3180,8\n"
    first, second = rows_of(tmp_path, text)
    assert (first.prompt_tokens, first.tokens, second.prompt_tokens, second.tokens) == (4808, 10, 3180, 8)
    assert first.time_s is not None
    assert second.time_s is not None
    assert second.time_s - first.time_s == pytest.approx(0.25, abs=1e-5)
    (zoned,) = rows_of(tmp_path, f"\ufeff{AZURE}2024-05-10 00:00:00.009930+00:00,2162,5\n")
    assert zoned.time_s == pytest.approx(1715299200.00993, abs=1e-6)
    assert (zoned.prompt_tokens, zoned.tokens) == (2162, 5)


def test_burst_gpt(tmp_path: Path) -> None:
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n"
    assert rows_of(tmp_path, text) == [TraceRow(5.0, 472, 18)]


def test_mooncake(tmp_path: Path) -> None:
    assert rows_of(tmp_path, f"{MOONCAKE}\n{MOONCAKE}") == [TraceRow(3.052, 1025, 7, (0, 28, 5))] * 2


@pytest.mark.parametrize("text", ["prompt_tokens,tokens\n7,3\n", '{"prompt_tokens": 7, "tokens": 3}\n'])
def test_lengths_without_times(text: str, tmp_path: Path) -> None:
    assert rows_of(tmp_path, text) == [TraceRow(None, 7, 3)]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (
            f"{AZURE}2023-11-16 18:17:03,10,1\n2023-11-16 18:17:04,ten,1\n",
            3,
            "ContextTokens must be a number",
        ),
        (f"{AZURE}2023-11-16 18:17:03,10,1\nsoon,10,1\n", 3, "TIMESTAMP is no time: 'soon'"),
        (
            f"{AZURE}2023-11-16 18:17:03,10,1\n2023-11-16 18:17:02,10,1\n",
            3,
            "TIMESTAMP is before that of the ",
        ),
        (f"{AZURE}2023-11-16 18:17:03,10\n", 2, "GeneratedTokens must be a number of tokens"),
        ("a,b\n1,2\n", 2, "it needs ContextTokens and GeneratedTokens or "),
        (f"{MOONCAKE}{{\n", 2, "it is no JSON object"),
        (f"{MOONCAKE}[1]\n", 2, "it is no JSON object"),
        (MOONCAKE.replace("28", '"x"'), 1, "hash_ids must be a list of whole numbers"),
        (MOONCAKE.replace("1025", "-1"), 1, "input_length must be a number of tokens"),
        (MOONCAKE.replace("1025", "true"), 1, "input_length must be a number of tokens"),
        (MOONCAKE.replace("3052", "1e999"), 1, "timestamp is no time"),
        (f'{MOONCAKE}{{"input_length": 1, "output_length": 1}}\n', 2, "timestamp is in some lines only"),
        ("{" + "[" * (1 << 20), 1, "the line has more than 1,048,576 characters"),
        ('{"a":' + "[" * 100_000 + "\n", 1, "it is no JSON object"),
    ],
)
def test_a_malformed_line_is_named(text: str, line: int, told: str, tmp_path: Path) -> None:
    with pytest.raises(EdgeLLMError) as caught:
        rows_of(tmp_path, text)
    assert f"trace, line {line}: {told}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(EdgeLLMError, match="missing: No such file or directory: give a file of CSV or JSON lines"):
        list(TraceReader(tmp_path / "missing").rows())
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EdgeLLMError, match="it is not UTF-8"):
        list(TraceReader(tmp_path / "binary").rows())


def test_rows_that_a_run_has(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,tokens\n10,5,5\n11,90,11\n12,0,5\n13,7,0\n14,60,40\n30,5,5\n", "utf-8")
    replayed = ServingOptions(trace=str(path), replay=True, duration=20)
    assert trace_rows(str(path), 100, replayed) == ([TraceRow(0.0, 5, 5), TraceRow(4.0, 60, 40)], 3)
    assert len(trace_rows(str(path), 101, ServingOptions(trace=str(path)))[0]) == 4
    assert trace_rows(str(path), 100, ServingOptions(trace=str(path), requests=1)) == ([TraceRow(0.0, 5, 5)], 0)
    with pytest.raises(EdgeLLMError, match="has no request that fits the context of 9 tokens"):
        trace_rows(str(path), 9, replayed)
    path.write_text("prompt_tokens,tokens\n5,5\n", "utf-8")
    with pytest.raises(EdgeLLMError, match="has no times: give rates instead of --serve trace"):
        trace_rows(str(path), 100, replayed)


def test_arrivals_are_a_poisson_process() -> None:
    """Gaps have the mean and the standard deviation 1 / rate, and counts of seconds the rate as mean and variance."""
    arrivals = poisson_arrivals(5.0, np.random.default_rng(3))
    times = np.array([next(arrivals) for _ in range(20_000)])
    gaps = np.diff(times, prepend=0)
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps.std() == pytest.approx(0.2, rel=0.03)
    assert (gaps > 0.2).mean() == pytest.approx(np.exp(-1), rel=0.03)
    counts = np.bincount(times.astype(int))[:-1]
    assert counts.mean() == pytest.approx(5, rel=0.03)
    assert counts.var() == pytest.approx(5, rel=0.1)


def test_lengths_are_drawn_from_the_whole_range() -> None:
    options = ServingOptions(prompt_tokens=Lengths.parse("3-6"), tokens=Lengths.parse("2"))
    rows = random_rows(options, 1)
    drawn = [next(rows) for _ in range(400)]
    assert {row.prompt_tokens for row in drawn} == {3, 4, 5, 6}
    assert {row.tokens for row in drawn} == {2}
    again = random_rows(options, 1)
    assert [next(again) for _ in range(400)] == drawn


@pytest.mark.parametrize("text", ["", "x", "-1", "5-", "6-5", "1-2-3", "1_0", "٣"])
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="give a number of tokens, or a range: 128-512"):
        Lengths.parse(text)
