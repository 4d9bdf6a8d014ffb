"""`edgellm plan --draft`: the memory of both models, and what a draft costs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgellm import EdgeLLMError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.cli.plan import command
from edgellm.fmt import size
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.machine_profile import MEMORY, save_profile
from edgellm.perf.plan import Plan, make_plan
from edgellm.perf.roofline import Roofline, decode_tps
from edgellm.speculation.draft_plan import plan_with_draft
from support.archs import ArchFixture
from support.eagle3_heads import write_head_files
from support.gemma_assistants import write_assistant
from support.model_file import FamilyFile, ModelFile

SIZES: dict[str, Any] = {"heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
SPEEDS = {MEMORY: 1e10, "F32": 2e10}
CELL = 2 * 1 * (32 + 32) * 2 // 2
"""Bytes of a token's keys and values in one layer with one KV head, f16."""

OPTIONS: dict[str, Any] = {"threads": 2, "gpu_layers": 0, "ctx": 500}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "home"))


@pytest.fixture
def target(model_file: ModelFile) -> Path:
    return model_file(width=128, layers=6, **SIZES)


@pytest.fixture
def draft(model_file: ModelFile) -> Path:
    return model_file(width=64, layers=2, context_length=256, **SIZES)


def planned(path: Path, make: Callable[[GGUFFile, LoadOptions], Plan] = plan_with_draft, **options: Any) -> Plan:
    with GGUFFile.open(path) as file:
        return make(file, LoadOptions(**{**OPTIONS, **options}))


def run(*arguments: object) -> Result:
    given = [*arguments, "--threads", 2, "--gpu-layers", 0, "--ctx", 500]
    result = CliRunner().invoke(command, [str(argument) for argument in given])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_memory_is_that_of_both_models(target: Path, draft: Path) -> None:
    both, alone = planned(target, draft=str(draft)), planned(target)
    own = planned(draft, make_plan, ctx=256)
    assert both.draft
    assert (both.draft.plan.total, both.draft.plan.threads, both.draft.plan.gpu) == (own.total, 2, None)
    assert both.draft.plan.kv_cache == 256 * 2 * CELL, "for a text of its own context"
    assert alone.draft is planned(target, draft="off").draft is None
    assert alone.total == planned(target, make_plan).total == planned(target, draft="off").total
    assert both.total == alone.total + own.total
    assert both.needed(100) == alone.needed(100) + own.needed(100)


def test_a_limited_memory_of_keys_and_values_is_shared_by_their_size(target: Path, draft: Path) -> None:
    both = planned(target, draft=str(draft), kv_memory=8 * 64 * 8 * CELL / 1e9)
    assert both.draft
    assert both.kv_memory == pytest.approx(8 * 64 * 6 * CELL, abs=1)
    assert both.draft.plan.kv_memory == pytest.approx(8 * 64 * 2 * CELL, abs=1)
    assert both.kv_tokens in (448, 500), "the last page may be lost to rounding"


def test_the_cost_of_a_draft_follows_from_the_speeds(target: Path, draft: Path) -> None:
    both = planned(target, draft=str(draft))
    assert both.draft
    rooflines = []
    for path in (draft, target):
        with GGUFFile.open(path) as file:
            rooflines.append(Roofline.of(describe(file), "f16"))
    own, other = decode_tps(rooflines[0], 2, SPEEDS, 2), decode_tps(rooflines[1], 6, SPEEDS, 2)
    assert own and other
    assert both.draft.relative_cost(both, SPEEDS) == pytest.approx(other / own)
    by_bytes = rooflines[0].weight_bytes / rooflines[1].weight_bytes
    assert both.draft.relative_cost(both, {}) == by_bytes < 1 / 4


def test_the_command_shows_the_draft_model(target: Path, draft: Path) -> None:
    save_profile(2, SPEEDS)
    both = planned(target, draft=str(draft))
    assert both.draft
    found = json.loads(run(target, "--draft", draft, "--json").stdout)
    own, cost = both.draft.plan, both.draft.relative_cost(both, SPEEDS)
    assert found["draft"]["name"] == str(draft)
    assert found["draft"]["cost"] == pytest.approx(cost)
    assert found["draft"]["memory"]["total"] == own.total
    assert found["memory"]["total"] == both.total
    said = run(target, "--draft", draft).stdout
    rest = size(own.activations + own.scratch)
    parts = f"weights {size(own.weights)}, KV cache {size(own.kv_cache)}, activations {rest}"
    assert f"{size(own.total)}  {draft}: {parts}\n" in said
    assert f"\ndrafts            a draft takes {cost:.2f} of the time of a token;" in said
    assert "\ndrafts" not in run(target).stdout
    assert json.loads(run(target, "--json").stdout)["draft"] is None


def test_a_draft_model_that_cannot_be_used_is_refused(target: Path, draft: Path, model_file: ModelFile) -> None:
    with pytest.raises(UnsupportedModelError, match="writes text with other tokens than"):
        run(target, "--draft", model_file(width=64, layers=1, tokenizer="gpt2", **SIZES))
    with pytest.raises(UnsupportedModelError, match="is too large for a draft model"):
        run(draft, "--draft", target)
    with pytest.raises(EdgeLLMError, match=r"none\.gguf"):
        run(target, "--draft", "none.gguf")


def test_the_memory_of_a_head_of_its_own_file(tmp_path: Path) -> None:
    files = write_head_files(tmp_path, "midlayer", "F32")
    both, alone = planned(files.target, draft=str(files.head), ctx=400), planned(files.target, ctx=400)
    assert both.draft
    own = both.draft.plan
    with GGUFFile.open(files.head) as file:
        assert own.weights == sum(tensor.nbytes for tensor in file.tensors.values())
    assert own.kv_cache == 7 * 64 * 2 * 2 * 16 * 2, "seven pages of keys and values of two heads in one layer"
    waiting = 400 * 3 * 64 * 4
    assert 2 * waiting < own.activations < 2e6, "states that wait, as many rows of the encoder, and those of the layer"
    assert (both.draft.name, own.threads) == (str(files.head), 2)
    assert both.total == alone.total + own.total
    assert both.needed(100) == alone.needed(100) + own.needed(100)
    assert 0 < both.draft.relative_cost(both, {}) < 0.5


def test_an_assistant_has_no_keys_and_values(shared: Path, tmp_path: Path) -> None:
    """Beside its weights it has what a batch takes, and the states of the last rows of a step."""
    target, assistant = ArchFixture.of(shared, "gemma4_e2b").gguf, write_assistant(tmp_path / "assistant.gguf")
    both, alone = (planned(target, draft=draft, kv_memory=0.01) for draft in (str(assistant), "off"))
    assert both.draft
    own = both.draft.plan
    with GGUFFile.open(assistant) as file:
        assert own.weights == sum(tensor.nbytes for tensor in file.tensors.values())
    assert own.kv_cache == 0
    assert both.kv_cache == alone.kv_cache
    assert both.total == alone.total + own.total


def test_the_weights_of_a_head_in_the_file_of_its_target_count_once(family_file: FamilyFile) -> None:
    path = family_file("glm4_5_air")
    both, alone = planned(path, draft="auto", ctx=100), planned(path, ctx=100)
    assert both.draft
    assert both.draft.plan.weights == 0
    assert both.weights == alone.weights
    assert both.total == alone.total + both.draft.plan.total > alone.total
    assert both.draft.name == f"multi-token prediction of {path}"


def test_a_limit_of_keys_and_values_is_shared_with_a_head(family_file: FamilyFile) -> None:
    """The head has one layer of the sizes of those of the model."""
    path = family_file("glm4_5_air")
    alone, both = planned(path, kv_memory=0.01), planned(path, draft="auto", kv_memory=0.01)
    assert both.draft
    share = 1 / (alone.layers + 1)
    assert both.kv_memory == pytest.approx((1 - share) * alone.kv_memory, rel=1e-6)
    assert both.draft.plan.kv_memory == pytest.approx(share * alone.kv_memory, rel=1e-6)
