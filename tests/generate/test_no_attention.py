"""Mamba-1 and Mamba-2, whose layers have no attention: no KV cache, no position tables, a context of 2^20 tokens."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgellm import Model
from edgellm.arch import describe
from edgellm.cli.info import command as info
from edgellm.cli.plan import command as plan
from edgellm.engine.position_tables import table_bytes
from edgellm.gguf import GGUFFile
from support.families.references import IDS
from support.model_file import FamilyFile

CONTEXT = 1 << 20


@pytest.fixture(params=["mamba1", "mamba2"])
def path(request: pytest.FixtureRequest, family_file: FamilyFile) -> Path:
    return family_file(request.param)


def test_it_has_no_keys_values_and_positions(path: Path) -> None:
    with GGUFFile.open(path) as file:
        model = describe(file)
        assert model.context_length == CONTEXT
        assert (model.kv_groups, model.position_tables, table_bytes(model, CONTEXT)) == ((), (), 0)


def test_info_and_plan_count_no_kv_cache(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    told = json.loads(CliRunner().invoke(info, [str(path), "--json"]).stdout)
    assert (told["kv_bytes_per_token"], told["context_length"]) == (0, CONTEXT)
    planned = json.loads(CliRunner().invoke(plan, [str(path), "--json"]).stdout)
    assert (planned["memory"]["kv_cache"], planned["ctx"], planned["fits"]) == (0, CONTEXT, True)
    for command in (info, plan):
        assert CliRunner().invoke(command, [str(path)]).exit_code == 0


def test_the_type_of_the_kv_cache_changes_no_bit(path: Path) -> None:
    logits = []
    for kv_type in ("f32", "f16", "q8_0"):
        with Model.open(path, threads=2, kv_type=kv_type) as model:
            logits.append(model.logits(IDS[:200], chunk=64))
    assert np.array_equal(logits[0], logits[1]) and np.array_equal(logits[0], logits[2])


def test_it_chats(path: Path) -> None:
    with Model.open(path, threads=1) as model:
        chat = model.chat(template="chatml")
        first, second = (chat.send(text, max_tokens=3, temp=0) for text in ("hello", "and then?"))
    assert second.stats.prompt_tokens > first.stats.prompt_tokens > 0
    assert 0 <= second.stats.cached_tokens < second.stats.prompt_tokens
