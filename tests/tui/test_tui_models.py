"""The picker without its screen: what it lists, what fits, and how a line is cut."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from edgellm.fmt import size
from edgellm.gguf import GGUFFile
from edgellm.hub.suggestions import SUGGESTIONS
from edgellm.models.pull_records import FileRecord, incoming_folder, write_record
from edgellm.options import LoadOptions
from edgellm.perf.plan import Plan, make_plan
from support import gguf_bytes as raw
from support.auxiliary_files import KINDS, auxiliary_file
from support.local_models import Machine, machine
from support.make_gguf import write_model
from tui.models.catalog import ModelCatalog, all_rows, local_rows, offered_rows
from tui.models.columns import HERE, fitted, heading, offered, row_line, visible
from tui.models.row import Fit, ModelRow, fit
from tui.models.typed_name import typed_row

__all__ = ["machine"]

Sizes = dict[str, Any]


def test_the_screen_brings_nothing_heavy() -> None:
    code = "import sys, tui.models.screen; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "textual.screen" in done.stdout.split()
    assert not set(done.stdout.split()) & {
        "numpy",
        "numba",
        "huggingface_hub",
        "edgellm.perf.plan",
        "edgellm.models",
        "edgellm.hub",
    }


def plan(available: int, ctx: int = 8192, kv_cache: int = 400, **states: int) -> Plan:
    """A plan of 1,000 bytes: 550 of weights, 50 of the rest, and the KV cache; and of `states`."""
    rest: Sizes = {
        "kv_type": "f16",
        "threads": 1,
        "layers": 1,
        "roofline": None,
        "devices": [],
        "kv_memory": 0,
        "kv_tokens": 0,
        "total_weights": 550,
        "resident": None,
        "disk": None,
    }
    sizes = {"weights": 550, "kv_cache": kv_cache, "activations": 30, "scratch": 20}
    of_states = {"state_bytes": 0, "checkpoints": 0, "drafts": 0} | states
    return Plan(ctx=ctx, **sizes, **of_states, available=available, **rest)


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (5000, "fits"),
        (1112, "fits"),  # 9/10 of it are 1000.8
        (1111, "tight"),  # 9/10 of it are 999.9
        (1000, "tight"),
        (700, "tight"),  # 600 and a quarter of the KV cache, as 2,048 of 8,192 tokens are
        (699, "too large"),
        (0, "too large"),
    ],
)
def test_what_fits(available: int, expected: Fit) -> None:
    assert fit(plan(available)) == expected


def test_a_short_context_is_needed_whole() -> None:
    """A model of 1,024 tokens has no use for less of them."""
    assert fit(plan(1000, ctx=1024)) == "tight"
    assert fit(plan(999, ctx=1024)) == "too large"


@pytest.mark.parametrize(
    ("available", "expected"),
    [(1200, "fits"), (1199, "tight"), (1020, "tight"), (720, "tight"), (719, "too large")],
)
def test_checkpoints_of_states_are_not_needed(available: int, expected: Fit) -> None:
    """Of 20 states of 10 bytes two are needed: 1,020 bytes of 1,200."""
    assert fit(plan(available, state_bytes=10, checkpoints=11, drafts=7)) == expected


def test_every_word_has_to_be_there() -> None:
    row = ModelRow("Qwen3-1.7B", "Hugging Face", quantization="Q4_K_M")
    assert all(row.matches(typed) for typed in ("", "qwen", "1.7b q4", "q4_k QWEN", "hugging"))
    assert not any(row.matches(typed) for typed in ("llama", "qwen q8_0"))


def test_what_is_typed_may_be_a_file_or_a_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    def typed(text: str) -> list[tuple[str, bool]]:
        return [(row.name, row.offered) for row in typed_row(text, [ModelRow("here/too", "edgellm")])]

    assert typed("./a.gguf") == [("./a.gguf", False)]
    assert typed("a.GGUF") == [("a.GGUF", False)]
    assert typed("~/a") == [("/home/me/a", False)]
    assert typed("org/name") == [("org/name", True)]
    assert typed("org/name:file.gguf") == [("org/name:file.gguf", True)]
    assert typed("https://huggingface.co/org/name") == [("https://huggingface.co/org/name", True)]
    assert typed("qwen") == typed("or/g name") == typed("here/too") == []


def test_columns_leave_in_order() -> None:
    def titles(width: int) -> list[str]:
        return [column.title for column in visible(HERE, width)]

    assert titles(87) == ["params", "type", "size", "context", "memory", "from"]  # 24, 51, and six gaps of 2
    assert titles(86) == ["params", "type", "size", "context", "memory"]
    assert titles(72) == ["params", "type", "size", "memory"]
    assert titles(57) == ["type", "size", "memory"]
    assert titles(50) == ["size", "memory"]
    assert titles(36) == ["memory"]
    assert titles(20) == []


@pytest.mark.parametrize("width", [20, 36, 60, 72, 120])
def test_every_line_has_the_width(width: int) -> None:
    row = ModelRow(
        "名前" * 30 + "\x1b[2J\n-Q4_K_M", "Hugging Face", 1_240_000_000, "Q4_K_M", 812_000_000, 1 << 20, "tight"
    )
    lines = [row_line(row, HERE, width), row_line(row, offered([row], width), width), heading("here", HERE, width)]
    assert [cell_len(line.plain) for line in lines] == [width] * 3
    assert "\x1b" not in lines[0].plain
    assert lines[0].plain.split("  ")[1].endswith("_M") or width == 20


def test_what_is_offered_has_whole_names_before_there_are_notes(machine: Machine) -> None:
    def shows(rows: list[ModelRow], width: int) -> bool:
        """Whether there are notes; where they are not, names are whole as well."""
        lines = [row_line(row, offered(rows, width), width).plain for row in rows]
        assert all(row.name in line for row, line in zip(rows, lines, strict=True))
        assert len({row.note in line for row, line in zip(rows, lines, strict=True)}) == 1
        return rows[0].note in lines[0]

    rows = list(offered_rows())
    assert [shows(rows, width) for width in (59, 93, 94, 140)] == [False, False, True, True]  # 95 of 100 columns
    begun = [ModelRow(f"{rows[6].name}:Q4_K_M", "", note="100% is here: Enter resumes it", offered=True), *rows]
    assert [shows(begun, width) for width in (94, 100, 101)] == [False, False, True]


def test_a_line_shows_what_is_known() -> None:
    row = ModelRow("m", "ollama", 1_240_000_000, "Q4_K_M", 812_000_000, 131_072, "tight")
    assert row_line(row, HERE, 110, current=True).plain.split() == [
        *("●", "m", "1.24", "B", "Q4_K_M", "812", "MB", "131,072", "tight", "ollama")
    ]
    assert row_line(ModelRow("m", "x"), HERE, 110).plain.split() == ["m", "x"]


def test_long_names_are_cut_in_the_middle() -> None:
    assert fitted("abcdefghij", 10) == "abcdefghij"
    assert fitted("abcdefghij", 7) == "abc…hij"
    assert fitted("abcdefghij", 6) == "abc…ij"
    assert fitted("ab", 4) == "ab  "
    assert fitted("ab", 4, right=True) == "  ab"


def whole_catalog() -> tuple[ModelRow, ...]:
    """What a catalog has when it is complete; each look at it before shows the beginning of that."""
    looks: list[tuple[ModelRow, ...]] = []
    catalog = ModelCatalog(lambda: looks.append(catalog.rows), all_rows)
    catalog._read()
    assert catalog.complete
    assert all(rows == catalog.rows[: len(rows)] for rows in looks)
    assert len(looks) == len(catalog.rows) + 1
    return catalog.rows


def test_a_model_is_reported_with_its_plan(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.perf.plan.available_memory", lambda: 100_000_000)
    path = machine.here / "models/tiny.gguf"
    path.parent.mkdir()
    write_model(path, types="Q8_0", vocab=320, width=512, layers=2)
    (row,) = local_rows()
    # embedding 320·512; per layer: q, output 512·512, k, v 128·512, three of the FFN 512·1024, two norms; a last norm
    parameters = 320 * 512 + 2 * (2 * 512 * 512 + 2 * 128 * 512 + 3 * 512 * 1024 + 2 * 512) + 512
    assert (row.name, row.source, row.parameters) == ("tiny", "./models", parameters)
    assert (row.quantization, row.bytes, row.context) == ("Q8_0", path.stat().st_size, 512)
    assert (row.fit, row.problem) == ("fits", None)
    assert "with all 512 tokens of its context; 100 MB are free" in row.note
    monkeypatch.setattr("edgellm.perf.plan.available_memory", lambda: 1_000_000)
    (row,) = local_rows()
    assert row.fit == "too large"
    assert row.note.endswith("it would run at the speed of the disk")


def test_what_checkpoints_take_is_reported_apart(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.here / "models/tiny.gguf"
    path.parent.mkdir()
    write_model(path, arch="qwen35", layers=4, width=64, heads=4, kv_heads=2, head_dim=16, ffn=96, types="F32")
    with GGUFFile.open(path) as file:
        plan = make_plan(file, LoadOptions())
    needed, total = plan.needed(plan.ctx), plan.total
    said = f"takes {size(needed)} with all 512 tokens of its context, up to {size(total)} with checkpoints; "
    for free, expected, advice in (
        (total, "fits", ""),
        (total - 1, "tight", ": set a smaller kv_memory for fewer checkpoints"),
        (needed - 1, "too large", ": it would run at the speed of the disk"),
    ):
        monkeypatch.setattr("edgellm.perf.plan.available_memory", lambda free=free: free)
        (row,) = local_rows()
        assert (row.fit, row.note.partition("; ")[2]) == (expected, f"{said}{size(free)} are free{advice}")


def test_a_model_without_a_template_says_so(machine: Machine) -> None:
    models = machine.here / "models"
    models.mkdir()
    write_model(models / "base.gguf", types="Q8_0")
    write_model(models / "chat.gguf", types="Q8_0", chat_template="{{ messages }}")
    base, chat = local_rows()
    assert (base.chats, chat.chats) == (False, True)
    assert "has no chat template" in base.note
    assert "template" not in chat.note


def test_what_is_wrong_with_a_file_is_its_row(machine: Machine, tmp_path: Path) -> None:
    """Whatever lies there: each thing has a row with one line, and nothing is waited for."""
    whole = write_model(tmp_path / "whole.gguf", types="Q8_0").read_bytes()
    machine.write("models/a-cut.gguf", whole[: len(whole) // 2])
    machine.write("models/b-header.gguf", whole[:1000])
    machine.write("models/c-empty.gguf", b"")
    machine.write("models/d-text.gguf", b"hello\n")
    machine.write("models/e-jamba.gguf", raw.RawGGUF((raw.string_pair("general.architecture", "jamba"),)))
    machine.write("models/f-vocabulary.gguf", raw.RawGGUF((raw.string_pair("general.architecture", "llama"),)))
    (machine.here / "models/g-nowhere.gguf").symlink_to("nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(machine.here / "models/h-pipe.gguf")
    (machine.here / "models/i-folder.gguf").mkdir()
    rows = list(local_rows())
    problems = {row.name: str(row.problem) for row in rows}
    assert all(row.problem and row.fit == "unknown" for row in rows)
    assert not any("\n" in problem or str(machine.here) in problem for problem in problems.values())
    assert "architecture jamba is not supported" in problems["e-jamba"]
    assert "is empty" in problems["c-empty"]
    assert len(rows) == (8 if hasattr(os, "mkfifo") else 7)  # a folder is no model, whatever its name


def test_files_of_no_model_are_left_out(machine: Machine) -> None:
    for name in KINDS:
        machine.write(f"models/{name}.gguf", auxiliary_file(name))
    write_model(machine.write("models/z.gguf"))
    assert [row.name for row in local_rows()] == ["z"]


def test_a_file_that_nobody_has_thought_of_is_one_bad_row(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("models/a.gguf")
    machine.write("models/b.gguf")
    monkeypatch.setattr("edgellm.perf.plan.make_plan", lambda file, options: 1 // 0)
    assert [(row.name, "ZeroDivisionError" in str(row.problem)) for row in local_rows()] == [("a", True), ("b", True)]


def test_a_list_that_breaks_off_shows_what_is_known(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("models/a.gguf")
    monkeypatch.setattr("edgellm.models.local_models.unfinished_pulls", lambda: 1 // 0)
    rows = whole_catalog()
    assert len(rows) == len(SUGGESTIONS) + 2
    assert "ZeroDivisionError" in str(rows[-1].problem)


def test_suggestions_are_offered_until_they_are_here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.system.machine.available_memory", lambda: 2_000_000_000)
    first = SUGGESTIONS[0].reference
    offered = {row.name: row.fit for row in offered_rows()}
    assert list(offered) == [suggestion.reference for suggestion in SUGGESTIONS]
    assert (offered[first], offered[SUGGESTIONS[-1].reference]) == ("fits", "too large")
    path = machine.write(machine.own / "models" / first / "m-Q8_0.gguf")
    write_record(path.parent, {path.name: FileRecord(path.stat().st_size, "sha256:" + "0" * 64)})
    assert first not in [row.name for row in offered_rows()]


def test_what_is_on_its_way_is_offered_and_is_no_bad_file(machine: Machine) -> None:
    files = {"m-Q8_0.gguf": FileRecord(4000, "sha256:" + "0" * 64)}
    folder = incoming_folder("org/name", files)
    machine.write(folder / "m-Q8_0.gguf.part", bytes(1000))
    write_record(folder, files)
    rows = whole_catalog()
    assert (rows[0].name, rows[0].offered, rows[0].bytes) == ("org/name:Q8_0", True, 4000)
    assert rows[0].note == "25% is here: Enter resumes it"
    assert not any(row.problem for row in rows)
