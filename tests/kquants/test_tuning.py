"""Which record of the tuning table serves which CPU, and what it says there."""

from collections.abc import Iterator

import pytest

from kquants import QUANTIZED_FORMATS
from kquants.compiler import cpu
from kquants.formats.quantized import QUANTIZED
from kquants.matmul.strategy import strategy_of
from kquants.tuning import RECORDS, PrefetchLevel, Tuning, tuning
from support.cpus import AVX2, AVX512, ZEN_4, listed

VNNI = (*AVX512, "avx512vnni")


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.setattr(cpu, "is_x86", lambda: True)
    monkeypatch.setattr(cpu, "is_arm", lambda: False)
    cpu.has.cache_clear()
    yield monkeypatch
    cpu.has.cache_clear()


def record(pretend: pytest.MonkeyPatch, name: str, features: tuple[str, ...]) -> Tuning:
    pretend.setenv("NUMBA_CPU_NAME", name)
    pretend.setenv("NUMBA_CPU_FEATURES", listed(features))
    cpu.has.cache_clear()
    return tuning.__wrapped__()


@pytest.mark.parametrize(
    ("name", "features", "lowering", "cpu_name"),
    [
        ("znver5", (*AVX512, *ZEN_4), "AVX-512 VNNI", "znver5"),
        ("znver4", (*AVX512, *ZEN_4), "AVX-512 VNNI", "znver4"),
        ("znver4", AVX2, "AVX2", ""),
        ("znver3", AVX2, "AVX2", ""),
        ("sapphirerapids", VNNI, "AVX-512 VNNI", "Intel"),
        ("x86-64-v4", VNNI, "AVX-512 VNNI", ""),
        ("skylake-avx512", AVX512, "AVX-512", "Intel"),
        ("alderlake", (*AVX2, "avxvnni"), "AVX-VNNI", "Intel"),
        ("haswell", AVX2, "AVX2", "Intel"),
        ("ivybridge", ("ssse3",), "SSSE3", "Intel"),
        ("bdver2", ("ssse3",), "SSSE3", ""),
        ("x86-64", (), "plain vectors", ""),
    ],
)
def test_each_cpu_has_the_record_of_its_class(
    name: str, features: tuple[str, ...], lowering: str, cpu_name: str, pretend: pytest.MonkeyPatch
) -> None:
    found = record(pretend, name, features)
    assert (found.lowering, found.cpu_name, found.amx) == (lowering, cpu_name, False)


def test_amx_and_arm_have_records(pretend: pytest.MonkeyPatch) -> None:
    pretend.setattr(cpu, "has_amx", lambda: True)
    found = record(pretend, "sapphirerapids", VNNI)
    assert (found.amx, found.decode_rows, found.float_decode_rows) == (True, 8, 4)
    for is_it, answer in {"has_amx": False, "is_x86": False, "is_arm": True}.items():
        pretend.setattr(cpu, is_it, lambda answer=answer: answer)
    assert record(pretend, "neoverse-v1", ("neon", "dotprod")).lowering == "Arm dot product"
    plain = record(pretend, "cortex-a72", ("neon",))
    assert (plain.lowering, plain.cpu_name) == ("plain vectors", "Arm")


@pytest.mark.parametrize(
    ("name", "features", "read_soon", "read_once"),
    [
        ("znver5", VNNI, PrefetchLevel.L1, PrefetchLevel.NON_TEMPORAL),
        ("znver4", VNNI, PrefetchLevel.L2, PrefetchLevel.L2),
        ("x86-64-v3", AVX2, PrefetchLevel.L2, PrefetchLevel.L2),
        ("sapphirerapids", VNNI, PrefetchLevel.L2, PrefetchLevel.L2),
    ],
)
def test_prefetches_go_into_the_cache_that_serves_a_cpu(
    name: str, features: tuple[str, ...], read_soon: int, read_once: int, pretend: pytest.MonkeyPatch
) -> None:
    found = record(pretend, name, features)
    assert (found.prefetch_level, found.decode_prefetch_level) == (read_soon, read_once)


@pytest.mark.parametrize(
    ("name", "features", "distances"),
    [
        ("znver5", VNNI, {"Q4_K": (0, 4096) * 2, "Q6_K": (0, 2048, 4096, 0), "Q5_K": (0, 4096) * 2}),
        ("znver4", VNNI, {"Q4_K": (0, 4096) * 2, "Q6_K": (0, 2048, 4096, 0), "Q8_0": (0, 4096) * 2}),
        ("znver3", AVX2, dict.fromkeys(("Q4_K", "Q6_K", "Q8_0"), (0, 4096))),
        ("sapphirerapids", VNNI, dict.fromkeys(("Q4_K", "Q6_K", "Q8_0"), (0, 4096))),
        ("haswell", AVX2, dict.fromkeys(("Q4_K", "Q6_K", "Q8_0"), (0, 4096))),
    ],
)
def test_how_far_decode_prefetches(
    name: str, features: tuple[str, ...], distances: dict[str, tuple[int, ...]], pretend: pytest.MonkeyPatch
) -> None:
    found = record(pretend, name, features)
    for fmt, wanted in distances.items():
        assert strategy_of(fmt.lower(), found).decode_prefetch(1) == wanted
    assert found.decode_prefetch_next_super_block == (found.cpu_name == "Intel")


def test_where_rows_are_split_weights_of_5_and_6_bits_are_prefetched_further_on(pretend: pytest.MonkeyPatch) -> None:
    zen_5, zen_4 = (record(pretend, name, VNNI) for name in ("znver5", "znver4"))
    assert strategy_of("q5_k", zen_5).decode_prefetch(4) == (8192, 0, 8192, 0)
    assert strategy_of("q6_k", zen_5).decode_prefetch(16) == (8192, 0, 8192, 0)
    assert strategy_of("q6_k", zen_4).decode_prefetch(4) == (8192, 4096, 0)
    assert strategy_of("q8_0", zen_5).decode_prefetch(8) == (0, 4096, 0, 4096)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.lowering} {record.cpu_name}")
def test_records_are_whole(record: Tuning) -> None:
    assert min(record.decode_prefetch) == 0, "the next tile is prefetched where it is"
    every = [record.decode_prefetch, *record.decode_prefetch_by_bits.values(), *record.decode_prefetch_split.values()]
    assert all(distance % 64 == 0 for distances in every for distance in distances), "else they are not the same lines"
    assert record.decode_prefetch_split == {} or record.split_k
    assert {*record.decode_row_pairs, *record.decode_row_by_row} <= QUANTIZED.keys()
    for name in QUANTIZED_FORMATS:
        strategy_of(name.lower(), record)  # checks that scratch has room


def test_each_record_differs_from_those_before_it() -> None:
    keys = [(record.lowering, record.cpu_name, record.amx) for record in RECORDS]
    assert len({*keys}) == len(keys)
