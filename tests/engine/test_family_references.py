"""The checkpoints of `support.families`, converted: logits and text are those of `transformers` in float64."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgellm.arch import ARCHITECTURES
from support.engine_bits import extend, forked, fresh, neighbours, opened, trimmed
from support.families import CASES
from support.families.references import IDS, POSITIONS, load_reference
from support.gguf_parts import GGUFParts
from support.model_file import FamilyFile
from support.reference import divergence

OTHERS: list[int] = IDS[::-1]
# Of all cases the one of each kind of layers; the others differ in sizes and settings.
KINDS = [
    *("llama3", "mistral_window", "qwen3_window", "ministral3", "smollm3", "gemma2", "gemma3_1b", "gemma3n"),
    *("gemma4_e2b", "gemma4_31b", "phi3_medium", "phi4_mini", "granite", "olmo3", "cohere2", "glm4_biases"),
    *("hunyuan", "starcoder2", "stablelm_12b", "apertus", "muse_glimmer", "qwen2moe", "minimax_m2"),
    *("gemma4_26b", "granitemoe_shared", "ernie4_5_21b", "phimoe", "gpt_oss"),
    *("deepseek_v2_lite", "deepseek_v3", "kimi_linear"),
    *("glm4_5", "ling2", "llama4_scout", "cohere2_moe", "mellum", "laguna_xs"),
    *("granite4_h_tiny", "falcon_mamba", "mamba2", "falcon_h1", "lfm2", "nemotron3_super"),
]
# Keys that say what the family, or the tensors of the file, say without them: other converters leave them out.
REPEATED = {
    "llama3": ["rope.freq_base", "rope.dimension_count", "attention.value_length", "vocab_size"],
    "gemma": ["attention.head_count_kv", "attention.value_length"],
    "gemma3_4b": ["rope.scaling.type", "rope.freq_base_swa"],
    "deepseek_v2": ["attention.key_length", "attention.value_length", "expert_gating_func", "vocab_size"],
    "gemma3n": ["final_logit_softcapping", "altup.active_idx", "altup.num_inputs", "rope.freq_base_swa"],
    "gemma4_31b": ["attention.shared_kv_layers", "embedding_length_per_layer_input", "rope.dimension_count_swa"],
    "ministral3": ["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"],
    "gpt_oss": ["attention.value_length", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"],
    "granite_plain": ["attention.scale", "embedding_scale", "residual_scale"],
    "olmo3": ["rope.freq_base_swa", "attention.sliding_window_pattern"],
    "cohere2": ["attention.key_length", "rope.scaling.type"],
    "stablelm_12b": ["use_parallel_residual"],
    "ernie4_5_21b": ["interleave_moe_layer_step", "expert_shared_count"],
    "hunyuan_moe": ["expert_feed_forward_length", "expert_shared_count"],
    "muse_glimmer": ["attention.sliding_window_pattern"],
    "qwen3_vl": ["rope.dimension_sections", "n_deepstack_layers"],
    "glm4_5_air": ["expert_group_count", "expert_gating_func", "expert_weights_scale", "expert_shared_count"],
    "llama4_scout": ["vocab_size", "rope.dimension_count"],
    "cohere2_moe": ["attention.value_length", "rope.scaling.type"],
    "mellum": ["rope.freq_base_swa", "attention.sliding_window_pattern"],
    "lfm2": ["vocab_size"],
    "nemotron3_super": ["vocab_size", "rope.dimension_count", "rope.scaling.finetuned", "attention.value_length"],
    "granite4_h_tiny": ["rope.dimension_count", "rope.freq_base", "vocab_size"],
    "mamba1": ["feed_forward_length", "ssm.dt_b_c_rms"],
    "mamba2": ["feed_forward_length"],
    "falcon_h1": ["attention.value_length", "vocab_size"],
    "kimi_linear": ["attention.value_length", "attention.key_length", "expert_group_used_count", "expert_shared_count"],
    "laguna_xs": ["expert_gating_func", "attention.value_length", "rope.dimension_count_swa"],
}


def needs(name: str) -> None:
    """Skip unless edgellm runs the architecture of the case `name`."""
    architecture = CASES[name].architecture
    if architecture not in ARCHITECTURES:
        pytest.skip(f"architecture {architecture} is not supported")


@pytest.mark.parametrize("name", CASES)
def test_logits_and_greedy_text_are_those_of_transformers(family_file: FamilyFile, name: str) -> None:
    needs(name)
    reference = load_reference(name)
    with opened(family_file(name), kv_type="f32", ctx=CASES[name].context) as engine:
        sequence = engine.new_sequence()
        logits = extend(engine, sequence, IDS, 150).view(np.float32)
        assert divergence(reference.logits, logits[POSITIONS]) <= 1e-5
        new, got = int(logits[-1].argmax()), list[int]()
        for _ in range(8):
            got.append(new)
            new = int(extend(engine, sequence, [new], 1).view(np.float32).argmax())
    assert got == reference.greedy


@pytest.mark.parametrize("name", REPEATED)
def test_keys_that_repeat_the_family_may_be_absent(family_file: FamilyFile, tmp_path: Path, name: str) -> None:
    needs(name)
    parts, path = GGUFParts.read(family_file(name)), tmp_path / "m.gguf"
    with opened(family_file(name)) as engine:
        whole = fresh(engine, IDS[:200])
    for key in REPEATED[name]:
        pairs = dict(parts.pairs)
        del pairs[f"{CASES[name].architecture}.{key}"]
        path.write_bytes(replace(parts, pairs=pairs).build())
        with opened(path) as engine:
            assert np.array_equal(fresh(engine, IDS[:200]), whole), key


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_chunks_threads_neighbours_forks_and_trims_change_no_bit(family_file: FamilyFile, name: str) -> None:
    needs(name)
    path, case = family_file(name), CASES[name]
    is_recurrent = ARCHITECTURES[case.architecture].is_hybrid
    ids = IDS if case.has_window else IDS[:300]
    with opened(path, ctx=case.context) as engine:
        whole = extend(engine, engine.new_sequence(), ids, 150)
        assert np.array_equal(extend(engine, engine.new_sequence(), ids, 7), whole), "chunks of 7"
        assert np.array_equal(neighbours(engine, ids[:300], OTHERS), whole[:300]), "neighbours"
        for at in (64, 130):
            assert np.array_equal(forked(engine, ids[:300], OTHERS, at), whole[at:300]), f"forked at {at}"
        for to in (len(ids) - 1, 250, 64):
            reached, rest = trimmed(engine, ids, 100, to)
            goes_anywhere = not is_recurrent and (not case.has_window or to > 300)
            assert reached == to if goes_anywhere else reached in (to, 0, 100)
            assert np.array_equal(rest, whole[reached:]), f"trimmed to {to}"
    for threads, chunk in ((1, 1), (1, 64), (3, 64)):
        with opened(path, threads, ctx=case.context) as engine:
            got = extend(engine, engine.new_sequence(), ids, chunk)
        assert np.array_equal(got, whole), f"{threads} threads, chunks of {chunk}"


@pytest.mark.parametrize("name", ["gemma3_1b", "phi3_medium"])
def test_a_window_goes_back_to_the_nearest_length_that_it_holds(family_file: FamilyFile, name: str) -> None:
    """With the same bits from there on; a checkpoint keeps the pages before it, too."""
    needs(name)
    with opened(family_file(name), ctx=CASES[name].context) as engine:
        whole = extend(engine, engine.new_sequence(), IDS, 150)
        for mark, to, wanted in ((100, 590, 590), (100, 150, 100), (200, 150, 150), (590, 100, 0)):
            reached, got = trimmed(engine, IDS, mark, to)
            assert reached == wanted
            assert np.array_equal(got, whole[wanted:]), f"back to {to} with a checkpoint at {mark}"


def test_windows_that_were_lost_with_a_gpu_are_computed_again(family_file: FamilyFile) -> None:
    needs("gemma3_1b")
    with opened(family_file("gemma3_1b"), ctx=CASES["gemma3_1b"].context) as engine:
        whole, sequence = extend(engine, engine.new_sequence(), IDS, 150), engine.new_sequence()
        extend(engine, sequence, IDS[:500], 50)
        sequence.mark()
        engine._failover.restore(sequence)
        assert np.array_equal(extend(engine, sequence, IDS[500:], 33), whole[500:])
        assert sequence.trim(480) == 480
        assert np.array_equal(extend(engine, sequence, IDS[480:], 33), whole[480:])


@pytest.mark.parametrize("name", ["gemma3_1b", "phi3_medium"])
@pytest.mark.parametrize("kv_type", ["f32", "q8_0"])
def test_windows_change_no_bit_with_other_pages(family_file: FamilyFile, name: str, kv_type: str) -> None:
    needs(name)
    with opened(family_file(name), 1, kv_type, CASES[name].context) as engine:
        whole = extend(engine, engine.new_sequence(), IDS, 150)
        for chunk in (1, 7, 64):
            assert np.array_equal(extend(engine, engine.new_sequence(), IDS, chunk), whole), f"chunks of {chunk}"
