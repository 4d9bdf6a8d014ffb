"""The pass over the weights: every row once, in its place, by all threads, and errors that name the place."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from converters import row_converter
from converters.conversion import Conversion, prepare
from converters.file_stamps import FileStamps
from converters.header import layout_file
from converters.row_converter import RowConverter
from converters.streaming import CHUNK_WEIGHTS, row_chunks
from converters.tensors import PlannedTensor, Source
from converters.threads import parallel_for
from edgellm.errors import EdgeLLMError, ModelFileError, OptionError, UnsupportedModelError
from kquants.ggml import NAMED_TYPES as TYPES


def planned(name: str, weights: NDArray[np.floating], kind: str) -> PlannedTensor:
    """A tensor of float32 or float16 weights that becomes `kind`."""
    stored = {"float32": "F32", "float16": "F16"}[weights.dtype.name]
    flat = weights.reshape(-1, weights.shape[-1])
    return PlannedTensor(
        Source(name, weights.shape, stored, lambda a, b: np.ascontiguousarray(flat[a:b]).view(np.uint8)), TYPES[kind]
    )


def job(out: Path, *tensors: PlannedTensor, threads: int = 2) -> Conversion:
    return Conversion(out, layout_file({}, tensors), tensors, threads, FileStamps([]))


def weights(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_chunks_are_all_rows_once_and_none_is_large() -> None:
    tensors = [planned("a", np.zeros((1000, 1024), np.float16), "F16"), planned("b", weights(5), "F32")]
    tensors += [planned("c", np.zeros((2, 3, CHUNK_WEIGHTS + 1), np.float16), "F16")]
    cut = list(row_chunks(tensors, [0, 1, 2]))
    for tensor in tensors:
        mine = [chunk for chunk in cut if chunk.tensor is tensor]
        assert [chunk.first for chunk in mine] == [0, *(chunk.last for chunk in mine[:-1])]
        assert mine[-1].last == tensor.source.row_count
        assert all((s.last - s.first) * tensor.source.columns <= CHUNK_WEIGHTS or s.last - s.first == 1 for s in mine)


@pytest.mark.parametrize("threads", [1, 3])
def test_tensors_are_where_the_header_says_and_as_exact_as_reported(tmp_path: Path, threads: int) -> None:
    given = {"a": weights(300, 512), "b": weights(7), "c": weights(2, 40, 32).astype(np.float16), "d": weights(1, 32)}
    kinds = {"a": "Q8_0", "b": "F32", "c": "Q4_0", "d": "F16"}
    tensors = [planned(name, given[name], kind) for name, kind in kinds.items()]
    report = job(tmp_path / "out.gguf", *tensors, threads=threads).run()
    read = {t.name: t for t in gguf.GGUFReader(tmp_path / "out.gguf").tensors}
    for tensor in report.tensors:
        back = gguf.quants.dequantize(read[tensor.name].data, read[tensor.name].tensor_type).astype(np.float64)
        exact = given[tensor.name].astype(np.float64)
        error = np.sqrt(np.sum((back.reshape(exact.shape) - exact) ** 2) / np.sum(exact**2))
        assert tensor.error == pytest.approx(error, rel=1e-6)
    assert [t.name for t in report.worst(9)] == ["c", "a", "d"]
    assert report.nbytes == (tmp_path / "out.gguf").stat().st_size


def test_threads_change_no_byte(tmp_path: Path) -> None:
    tensors = [planned("a", weights(2000, 256), "Q4_K"), planned("b", weights(700, 256, seed=1), "Q6_K")]
    for threads in (1, 4):
        job(tmp_path / f"{threads}.gguf", *tensors, threads=threads).run()
    assert (tmp_path / "1.gguf").read_bytes() == (tmp_path / "4.gguf").read_bytes()


@pytest.mark.parametrize(
    ("bad", "word"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (1e38, "1e\\+38 is too large for F16")]
)
def test_a_bad_weight_is_named_by_its_place_and_no_file_is_left(tmp_path: Path, bad: float, word: str) -> None:
    values = weights(1000, 512)
    values[777, 3] = bad
    with pytest.raises(ModelFileError, match=rf"tensor a\\x1b, row 777, column 3: .*{word}"):
        job(tmp_path / "out.gguf", planned("a\x1b", values, "F16")).run()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("kind", "shift"), [("F32", 0), ("BF16", 16), ("F16", 0)])
def test_floats_that_stay_floats_are_looked_at_too(tmp_path: Path, kind: str, shift: int, bad: float) -> None:
    values = np.array([[1, -65504, 0], [2, bad, bad]], np.float16 if kind == "F16" else np.float32)
    stored = (values.view(np.uint32) >> shift).astype(np.uint16) if kind == "BF16" else values
    rows = PlannedTensor(Source("w", (2, 3), kind, lambda a, b: stored[a:b].copy().view(np.uint8)), TYPES[kind])
    word = f"{abs(bad) if np.isnan(bad) else bad}"
    with pytest.raises(ModelFileError, match=rf"tensor w, row 1, column 1: holds {word} instead of a number"):
        job(tmp_path / "out.gguf", rows).run()


def test_what_stays_as_it_is_needs_no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(row_converter.jit, "load", lambda names, *rest: loaded.extend(names))
    given = {"a": weights(300, 512), "b": weights(7), "c": weights(2, 40, 32).astype(np.float16)}
    tensors = [
        planned(name, some, {"float32": "F32", "float16": "F16"}[some.dtype.name]) for name, some in given.items()
    ]
    report = job(tmp_path / "out.gguf", *tensors).run()
    assert not loaded
    assert [tensor.error for tensor in report.tensors] == [0, 0, 0]
    for tensor in gguf.GGUFReader(tmp_path / "out.gguf").tensors:
        assert np.array_equal(tensor.data, given[tensor.name])


def test_an_error_while_reading_is_raised_here_and_no_file_is_left(tmp_path: Path) -> None:
    def rows(first: int, last: int) -> NDArray[np.uint8]:
        raise ModelFileError("shard 3 cannot be read")

    with pytest.raises(ModelFileError, match="shard 3"):
        job(tmp_path / "out.gguf", PlannedTensor(Source("a", (8, 32), "F32", rows), TYPES["Q8_0"])).run()
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("converter")]


def test_progress_ends_with_all_weights(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tensors = [planned("a", weights(900, 512), "Q8_0"), planned("b", weights(9), "F32")]
    job(tmp_path / "out.gguf", *tensors).run(lambda *now: seen.append(now))
    assert seen[-1] == (900 * 512 + 9, 900 * 512 + 9)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_an_interrupt_stops_the_threads(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(tmp_path / "out.gguf", planned("a", weights(4000, 512), "Q8_0")).run(interrupt)
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("converter")]


def test_memory_does_not_grow_with_the_tensor(tmp_path: Path) -> None:
    """A tensor of 1.1 GB as float32, its rows made when they are asked for, converts in far less."""
    row = weights(1, 4096).view(np.uint8)
    process, before = psutil.Process(), psutil.Process().memory_info().rss
    peak = 0

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        nonlocal peak
        peak = max(peak, process.memory_info().rss)
        return np.repeat(row, last - first, axis=0)

    job(tmp_path / "out.gguf", PlannedTensor(Source("a", (1 << 16, 4096), "F32", rows), TYPES["Q8_0"])).run()
    assert peak - before < 100 << 20


def test_a_plan_says_what_the_run_does_and_writes_nothing(tmp_path: Path) -> None:
    work = job(tmp_path / "out.gguf", planned("a", weights(600, 512), "Q4_K"), planned("b", weights(9), "F32"))
    plan = work.plan()
    assert not list(tmp_path.iterdir())
    report = work.run()
    assert [t._replace(error=None) for t in report.tensors] == plan.tensors
    assert (plan.nbytes, plan.bits_per_weight) == (report.nbytes, report.bits_per_weight)
    assert plan.bits_per_weight == pytest.approx(8 * (600 * 288 + 36) / (600 * 512 + 9))
    assert 0 < plan.seconds < 60
    assert psutil.Process().memory_info().rss * 0.5 < plan.memory < 4 << 30


@pytest.mark.parametrize("threads", [0, -1, 513, True, "2"])
def test_impossible_numbers_of_threads(tmp_path: Path, threads: int) -> None:
    with pytest.raises(OptionError, match="option threads cannot be"):
        prepare({}, [], "Q8_0", target=tmp_path / "out.gguf", source_files=[], source_name=None, threads=threads)


def test_what_cannot_be_read_or_cut_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    unknown = PlannedTensor(
        Source("a", (8, 256), "IQ4_K", lambda a, b: np.zeros((b - a, 144), np.uint8)), TYPES["Q4_K"]
    )
    with pytest.raises(UnsupportedModelError, match="a is IQ4_K"):
        RowConverter([unknown], None)
    endless = planned("b", np.zeros((1, (1 << 18) + 1), np.float16), "F16")
    with pytest.raises(UnsupportedModelError, match="tensor b: rows of 262145 weights are too long"):
        prepare({}, [endless], "F16", target=tmp_path / "out.gguf", source_files=[], source_name=None, threads=1)


def test_threads_take_from_one_list_and_the_first_error_stops_all() -> None:
    taken: list[int] = []

    def work() -> Iterator[int]:
        for i in range(10_000):
            taken.append(i)
            yield i

    def fail(i: int) -> int:
        if i == 20:
            raise EdgeLLMError("twenty")
        return i

    with pytest.raises(EdgeLLMError, match="twenty"):
        parallel_for(fail, work(), 4, lambda i: None)
    assert len(taken) < 10_000
    results: list[int] = []
    doubled: Callable[[int], int] = lambda i: 2 * i  # noqa: E731
    parallel_for(doubled, range(1000), 4, results.append)
    assert sorted(results) == list(range(0, 2000, 2))
