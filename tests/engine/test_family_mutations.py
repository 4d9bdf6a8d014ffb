"""Model files of each family with other keys and tensors: they run, or one clear error says why not.

See also test_fuzz_run.py, whose damage is of bytes.
"""

import random
from pathlib import Path

import pytest

from edgellm.arch import ARCHITECTURES
from support.damaged_files import peak_memory, runs
from support.families import CASES
from support.family_mutations import changed, changes
from support.gguf_parts import GGUFParts
from support.model_file import FamilyFile

FAMILIES = [
    *("gemma", "gemma2", "gemma3_1b", "gemma4_e2b", "gemma4_31b", "phi3_5_long", "phi3_mini", "ministral3"),
    *("smollm3", "granite", "olmo3", "cohere2", "glm4_biases", "exaone4_1b", "ernie4_5", "hunyuan_alpha"),
    *("seed_oss", "starcoder2", "stablelm_1_6b", "stablelm_12b", "apertus", "muse_glimmer", "qwen3_vl", "qwen2_vl"),
    *("qwen3moe", "qwen2moe", "olmoe", "mixtral", "minimax_m2"),
    *("gemma4_26b", "granitemoe_shared", "ernie4_5_21b", "hunyuan_moe", "phimoe", "gpt_oss"),
    *("deepseek_v2", "glm_4_7_flash"),
    *("glm4_5", "dots1", "ling2", "llama4_scout", "cohere2_moe", "mellum", "laguna_xs"),
    *("lfm2", "lfm2_moe", "nemotron_h", "nemotron3_super"),
    *("granite4_h_tiny", "granite4_h_micro", "mamba1", "mamba2", "falcon_h1"),
    *("qwen3_5", "qwen3_5_moe", "qwen3_next", "kimi_linear"),
]
OF_EACH = [24, pytest.param(240, marks=pytest.mark.exhaustive)]
MOST_MEMORY = 300e6
IDS = list(range(3, 73))


@pytest.mark.slow
@pytest.mark.parametrize("count", OF_EACH)
@pytest.mark.parametrize("name", FAMILIES)
def test_changed_files_run_or_say_why_not(family_file: FamilyFile, tmp_path: Path, name: str, count: int) -> None:
    if CASES[name].architecture not in ARCHITECTURES:
        pytest.skip(f"architecture {CASES[name].architecture} is not supported")
    source = family_file(name)
    assert runs(source, IDS, talks=False)
    path, outcomes, before = tmp_path / "m.gguf", [0, 0], peak_memory()
    parts, every, draw = GGUFParts.read(source), changes(source), random.Random(name)
    of_keys = [change for change in every if change.name in parts.pairs]
    for _ in range(count):
        made = draw.sample(draw.choice((of_keys, of_keys, every)), draw.choice((1, 1, 2)))
        path.write_bytes(changed(parts, made).build())
        try:
            outcomes[runs(path, IDS, talks=False)] += 1
        except Exception as error:
            raise AssertionError(f"{' and '.join(change.label for change in made)}: {error!r}") from error
    assert outcomes[False] > count // 4, "nearly all ran: such changes test little"
    assert peak_memory() - before < MOST_MEMORY
