"""The machine profile: which speeds are saved, and when they are used."""

import json
import os
from pathlib import Path

import pytest

from edgellm.perf import machine_profile as speeds
from edgellm.perf.machine_profile import MEMORY, load_profile, save_profile
from edgellm.system.folders import machine_profile_file
from kquants import jit


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_each_number_of_threads_has_its_own_speeds(home: Path) -> None:
    assert load_profile(1) == {}
    save_profile(1, {MEMORY: 2e10, "Q4_K": 3e10})
    save_profile(4, {MEMORY: 5e10})
    save_profile(1, {MEMORY: 1.5e10, "Q6_K": 1e10})
    assert [load_profile(n) for n in (1, 2, 4)] == [{MEMORY: 1.5e10, "Q4_K": 3e10, "Q6_K": 1e10}, {}, {MEMORY: 5e10}]
    assert [path.name for path in (home / "cache").iterdir()] == ["speeds.json"]


def test_other_kernels_multiply_at_another_speed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(1, {MEMORY: 2e10, "Q4_K": 3e10, "Q6_K": 2e10})
    monkeypatch.setattr(jit, "fingerprint", lambda: "others")
    assert load_profile(1) == {MEMORY: 2e10}
    save_profile(1, {"Q4_K": 4e10})
    assert load_profile(1) == {MEMORY: 2e10, "Q4_K": 4e10}


def test_another_cpu_is_another_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(1, {MEMORY: 2e10})
    monkeypatch.setattr(speeds, "cpu_name", lambda: "another")
    assert load_profile(1) == {}
    save_profile(1, {MEMORY: 3e10})
    monkeypatch.undo()
    monkeypatch.setenv("EDGELLM_HOME", str(home))
    assert load_profile(1) == {MEMORY: 2e10}


DAMAGED = [b"", b"\xff", b"[]", b"7", b'{"CPU 1": 1', b"[" * 100_000]
DAMAGED += [b'{"CPU 1": %s}' % value for value in (b"2e10", b"[2e10]", b"null")]
DAMAGED += [b'{"other": %s%s}' % (b"[" * 1200, b"]" * 1200)]
NO_SPEEDS = [b'"2e10"', b"null", b"true", b"NaN", b"-1", b"0", b"1e999", b"[]"]
NO_SPEEDS += [b"1e-100", b"5e-324", b"1e300", b"1" + b"0" * 5000]
DAMAGED += [b'{"CPU 1": {"memory": %s}}' % value for value in NO_SPEEDS]


@pytest.mark.parametrize("found", DAMAGED)
def test_a_damaged_profile_counts_as_empty(home: Path, monkeypatch: pytest.MonkeyPatch, found: bytes) -> None:
    monkeypatch.setattr(speeds, "cpu_name", lambda: "CPU")
    machine_profile_file().parent.mkdir(parents=True)
    machine_profile_file().write_bytes(found)
    assert load_profile(1) == {}
    save_profile(1, {MEMORY: 2e10})
    assert load_profile(1) == {MEMORY: 2e10}


def test_valid_entries_beside_damaged_ones_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "cpu_name", lambda: "CPU")
    machine_profile_file().parent.mkdir(parents=True)
    entry = {"memory": 20_000_000_000, "Q4_K": -1, "Q6_K": 1.5e10, "kernels": jit.fingerprint()}
    machine_profile_file().write_text(json.dumps({"CPU 1": entry}))
    assert load_profile(1) == {MEMORY: 2e10, "Q6_K": 1.5e10}, "and a whole number is a speed, too"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_fifo_does_not_block(home: Path) -> None:
    machine_profile_file().parent.mkdir(parents=True)
    os.mkfifo(machine_profile_file())
    assert load_profile(1) == {}


def test_where_nothing_can_be_written_nothing_is_kept(home: Path) -> None:
    home.write_text("a file where the folder should be")
    assert not save_profile(1, {MEMORY: 2e10})
    assert load_profile(1) == {}
    assert home.read_text() == "a file where the folder should be"


def test_a_folder_in_the_way_stays(home: Path) -> None:
    machine_profile_file().mkdir(parents=True)
    assert not save_profile(1, {MEMORY: 2e10})
    assert load_profile(1) == {}
    assert [path.name for path in (home / "cache").iterdir()] == ["speeds.json"]
