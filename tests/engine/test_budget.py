"""The memory that KV pages, logits and position tables may take: an error comes before the system is out of memory."""

import sys
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from edgellm import EdgeLLMError, Model, OptionError
from edgellm.arch import describe
from edgellm.engine.budget import KVBudget, check_memory
from edgellm.engine.host_kv_pages import CHUNK, HostKVPages
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.position_tables import PositionTables
from edgellm.engine.protocol import Segment
from edgellm.engine.webgpu.offload_plan import _Planner
from edgellm.errors import NoMemoryError
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.plan import make_plan
from edgellm.system import machine
from edgellm.system.folders import cache_folder
from kquants.kv_layout import PAGE
from support.chat_model import write_chat_model
from support.gpus import TINY, adapter, some_ids
from support.model_file import ModelFile
from tui.core.edge_backend import EdgeBackend
from tui.core.events import ModelOpened
from tui.core.reply_request import ReplyRequest
from tui.core.worker import Worker

CELL = 2 * 2 * 1 * 32 * 2
"""Bytes of a token of a chat model: keys and values of 2 layers, one head of 32, f16."""

EIGHT_PAGES = 8 * PAGE * CELL / 1e9
ASKED = [{"role": "user", "content": "hello"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_chat_model(tmp_path / "model.gguf")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that are free, as tests say."""
    bytes_free = [1 << 40]
    for name in ("unreserved_memory", "allocatable_memory"):
        monkeypatch.setattr(f"edgellm.engine.budget.{name}", lambda: bytes_free[0])
    return bytes_free


def pages_of(pages: HostKVPages, group: int = 0) -> NDArray[np.int64]:
    """The addresses of the pages of a KV group."""
    return pages._tables[group].array


def test_pages_of_two_groups_share_the_limit() -> None:
    pages = HostKVPages([1 << 20, 2 << 20], KVBudget(10 << 20))
    pages.ensure_pages(1, 3)
    assert np.count_nonzero(pages_of(pages, 1)) == 3, "room is left for the other group"
    for count in range(1, 5):
        pages.ensure_pages(0, count)
    with pytest.raises(NoMemoryError, match="full after 256 tokens"):
        pages.ensure_pages(0, 5)
    assert pages.addresses.array.tolist() == [each.address for each in pages._tables]
    pages.copy_page(1, 0, 2)


@pytest.mark.parametrize(("limit", "tokens"), [(20 << 20, 255 * PAGE), (1 << 20, 4 * PAGE)])
def test_a_small_limit_leaves_pages_for_every_group(limit: int, tokens: int) -> None:
    """Chunks of the first group would take all of it; a window needs little."""
    pages = HostKVPages([1 << 16, 1 << 16], KVBudget(limit))
    for count in range(1, tokens // PAGE + 1):
        pages.ensure_pages(0, count)
        pages.ensure_pages(1, min(count, 10))


def test_pages_stay_within_the_limit() -> None:
    pages = HostKVPages([1 << 20], KVBudget(10 << 20))
    pages.ensure_pages(0, 1)
    assert np.count_nonzero(pages_of(pages)) == 10, "many at once, and no more than there may be"
    pages.ensure_pages(0, 10)
    with pytest.raises(NoMemoryError, match=r"may not grow beyond 10.5 MB \(--kv-memory\), .* full after 640 tokens"):
        pages.ensure_pages(0, 11)
    pages.ensure_pages(0, 10)


def test_a_state_that_has_no_room_is_called_a_state(free: list[int]) -> None:
    pages = HostKVPages([], KVBudget(3 << 20), 1 << 20)
    pages.ensure_pages(0, 3)
    beyond = r"KV cache and recurrent states may not grow beyond 3.15 MB \(--kv-memory\), .* 1.05 MB, a state of"
    with pytest.raises(NoMemoryError, match=beyond):
        pages.ensure_pages(0, 4)
    free[0] = 0
    with pytest.raises(NoMemoryError, match=r"another 1.05 MB, a state of .*, as 0 bytes are free; close"):
        HostKVPages([], KVBudget(), 1 << 20).ensure_pages(0, 1)


def test_pages_stay_within_what_is_free(free: list[int]) -> None:
    pages = HostKVPages([1 << 20], KVBudget())
    pages.ensure_pages(0, 1)
    assert np.count_nonzero(pages_of(pages)) == CHUNK >> 20
    free[0] = 3 << 20
    pages.ensure_pages(0, 33)
    assert np.count_nonzero(pages_of(pages)) == 35
    free[0] = 1 << 19
    told = "no memory for another 1.05 MB of KV cache after 2,240 tokens, as 524 kB are free; close other programs"
    with pytest.raises(NoMemoryError, match=told):
        pages.ensure_pages(0, 36)


def test_where_states_have_no_room_the_message_speaks_of_them(free: list[int]) -> None:
    pages = HostKVPages([], KVBudget(3 << 20), state_bytes=1 << 20)
    pages.ensure_pages(0, 3)
    with pytest.raises(NoMemoryError, match=r"3.15 MB \(--kv-memory\), which leave no room for another 1.05 MB"):
        pages.ensure_pages(0, 4)
    free[0] = 1 << 19
    told = "no memory for another 1.05 MB, a state of recurrent layers, as 524 kB are free"
    with pytest.raises(NoMemoryError, match=told):
        HostKVPages([1 << 20], KVBudget(), state_bytes=1 << 20).ensure_pages(1, 1)


def test_a_limit_that_a_person_set_counts_whatever_is_free(free: list[int]) -> None:
    free[0] = 0
    HostKVPages([1 << 20], KVBudget(1 << 20)).ensure_pages(0, 1)


def test_what_is_small_is_taken_without_a_look(free: list[int]) -> None:
    free[0] = 0
    check_memory(1 << 20, "logits", "ask for fewer")
    with pytest.raises(NoMemoryError, match="no memory for 105 MB of logits, as 0 bytes are free; ask for fewer"):
        check_memory(105_000_000, "logits", "ask for fewer")


def test_logits_of_many_tokens_are_refused_before_they_are_computed(path: Path, free: list[int]) -> None:
    with Model.open(path) as model:
        free[0] = 20 << 20
        with pytest.raises(NoMemoryError, match=r"of logits.*ask for those of fewer tokens"):
            model.logits([5] * 6000)
        assert model.logits([5] * 100).shape == (100, 1024)


def test_a_model_that_has_no_room_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int]) -> None:
    monkeypatch.setattr("edgellm.engine.budget._UNCHECKED", 0)
    free[0] = 10_000
    with pytest.raises(
        NoMemoryError, match=r"no memory for .* of activations, as 10 kB are free; choose a smaller model or"
    ):
        Model.open(path)


def test_a_position_table_that_has_no_room_is_not_made(path: Path, free: list[int]) -> None:
    with GGUFFile.open(path) as file:
        table = PositionTables(describe(file), 1 << 22)
    free[0] = 20 << 20
    table.up_to(1 << 17)
    with pytest.raises(NoMemoryError, match=r"no memory for .* of position tables, .*; choose a smaller --ctx"):
        table.up_to(1 << 20)


def test_a_reply_that_fills_the_memory_ends_and_the_next_one_goes_on(path: Path) -> None:
    with Model.open(path, kv_memory=EIGHT_PAGES) as model:
        reply = model.stream("hello", temp=0)
        with pytest.raises(NoMemoryError, match=r"full after 512 tokens; allow more, .*--ctx or --kv-type q8_0"):
            list(reply)
        assert 480 < len(reply.tokens) <= 513
        assert len(model.generate("other words", max_tokens=300, temp=0).tokens) == 300


def test_what_nothing_uses_is_let_go_of_first(path: Path) -> None:
    """Conversations that are kept fill the memory; each new one takes the room of the oldest."""
    with Model.open(path) as whole, Model.open(path, kv_memory=EIGHT_PAGES) as model:
        for system in ("one", "two", "three", "four", "five"):
            texts = [each.chat(system=system).send("hello", max_tokens=200, temp=0).text for each in (whole, model)]
            assert texts[0] == texts[1]
        chat = model.chat(system="again")
        for asked in ("one", "two", "three", "four"):
            messages = [{"role": "user", "content": asked * 40}]
            assert len(chat.reply(messages, max_tokens=60).completion().tokens) == 60


def test_the_chat_stays_open(path: Path) -> None:
    told = Queue[Any]()
    worker = Worker(EdgeBackend(), told.put)
    try:
        worker.open(str(path), lambda name, path: {"kv_memory": EIGHT_PAGES})
        assert isinstance(told.get(timeout=60), ModelOpened)
        worker.reply(ReplyRequest(1, ASKED, {"temp": 0.0}))
        ended = told.get(timeout=60)
        assert (ended.finish_reason, bool(ended.text)) == ("error", True)
        assert "--kv-memory" in ended.problem
        worker.reply(ReplyRequest(2, ASKED, {"max_tokens": 5}))
        assert told.get(timeout=60).finish_reason == "length"
    finally:
        worker.close()


def test_the_plan_says_how_many_tokens_fit(path: Path, free: list[int]) -> None:
    with GGUFFile.open(path) as file:
        plan = make_plan(file, LoadOptions(kv_memory=EIGHT_PAGES))
        assert (plan.kv_memory, plan.kv_tokens, plan.fits) == (8 * PAGE * CELL, 8 * PAGE, False)
        assert make_plan(file, LoadOptions(kv_memory=1)).kv_tokens == 8192
        free[0] = 0
        assert make_plan(file, LoadOptions()).kv_tokens == 0


def test_what_cannot_be_is_refused(path: Path) -> None:
    with pytest.raises(OptionError, match="option kv_memory cannot be 0"):
        Model.open(path, kv_memory=0)
    with pytest.raises(EdgeLLMError, match=r"llama\.cpp takes .* at once; leave --kv-memory out"):
        Model.open(path, kv_memory=1, engine="llama.cpp")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes for want of memory")
def test_some_memory_stays_free(monkeypatch: pytest.MonkeyPatch) -> None:
    total = psutil.virtual_memory().total
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 40)
    monkeypatch.setattr(machine.cgroup, "memory_limits", lambda root: [1 << 50])
    assert (1 << 40) - machine.unreserved_memory() == min(total // 16, 256 << 20)
    monkeypatch.setattr(machine.cgroup, "memory_limits", lambda root: [1 << 50, 320 << 20])
    assert (1 << 40) - machine.unreserved_memory() == 20 << 20
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 20)
    assert (machine.unreserved_memory(), machine.allocatable_memory()) == (0, 1 << 20)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine.unreserved_memory() == machine.allocatable_memory() == sys.maxsize


@pytest.mark.parametrize(
    ("given", "free", "limit"),
    [(1000, None, 600), (1000, 90_000, 600), (None, None, None), (None, 10_000, 8600), (None, 100, 100)],
)
def test_pages_on_a_gpu_may_take_what_the_rest_leaves(given: int | None, free: int | None, limit: int | None) -> None:
    """Of what is given, else of nine tenths of what is free, where there is room for one full context at least."""
    nothing: Any = None
    planner = _Planner(nothing, nothing, OffloadRequest(memory=given), nothing, free)
    assert planner._kv_limit({"weights": 300, "activations": 100, "kv_cache": 100}) == limit


@pytest.mark.gpu
def test_pages_on_a_gpu_stay_within_its_memory(model_file: ModelFile) -> None:
    """Weights fit with the KV cache of one full context: a second sequence gets what is left, and no more."""
    adapter()
    with GGUFFile.open(model_file(**TINY)) as file:
        sizes: dict[str, Any] = {"threads": 1, "ctx": 256, "kv_type": "f32", "cache": cache_folder()}
        needed = make_plan(file, LoadOptions(ctx=256, kv_type="f32", gpu_layers="all", gpu="0")).gpu
        assert needed and describe(file).layers[0].attention.kv_heads == 2
        engine = NativeEngine(file, **sizes, offload=OffloadRequest("all", "0", needed.total, strict=True))
        first, second = engine.new_sequence(), engine.new_sequence()
        ids = some_ids(200)
        expected = engine.forward([Segment(first, ids, [199])])
        with pytest.raises(NoMemoryError, match=r"KV cache on .* may not grow beyond the .* leave of --gpu-memory"):
            engine.forward([Segment(second, ids, [199])])
        assert len(second) == 0
        del first
        np.testing.assert_allclose(engine.forward([Segment(second, ids, [199])]), expected, atol=1e-4)
        engine.close()
