"""The types of the tensors of every architecture that edgellm runs are those that llama.cpp's quantizer gives them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import pytest

from converters.gguf_source import gguf_sources
from converters.quant_mixes import QUANT_MIXES, assign_types
from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.facts import ArchitectureFacts, no_router
from edgellm.arch.tensor_names import ATTENTION
from edgellm.gguf import GGUFFile
from support.quantizer import Job, llama_cpp_types

pytestmark = pytest.mark.slow

LAYERS, WIDTH, FFN, ROWS = 9, 256, 512, 2
EXPERT_FFN = 320
SIZES = {
    "width": WIDTH,
    "ffn": FFN,
    "attention_width": WIDTH,
    "per_layer_width": 32,
    "per_layer_total": 32 * LAYERS,
    "expert_ffn": EXPERT_FFN,
    "shared_ffn": FFN,
    "recurrent_width": WIDTH,
}
"""Sizes that are the columns of matrices; others are rows, on which no type depends."""
WITH_AND_WITHOUT_EXPERTS = ("llama", "gemma4", "granitehybrid")
MIXES = ("Q2_K", "Q3_K_M", "IQ3_M", "Q3_K_L", "IQ4_XS", "Q4_K_M", "MXFP4", "Q8_0", "F16")

KEYS: dict[str, Any] = {
    "block_count": LAYERS,
    "context_length": 64,
    "embedding_length": WIDTH,
    "feed_forward_length": FFN,
    "attention.head_count": 8,
    "attention.key_length": 32,
    "attention.value_length": 32,
    "attention.key_length_swa": 32,
    "attention.value_length_swa": 32,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "attention.layer_norm_epsilon": 1e-5,
    "attention.sliding_window": 16,
    "attention.sliding_window_pattern": [i % 4 < 3 for i in range(LAYERS)],
    "attention.shared_kv_layers": 3,
    "attention.q_lora_rank": 64,
    "attention.kv_lora_rank": 64,
    "attention.key_length_mla": 32,
    "attention.value_length_mla": 32,
    "embedding_length_per_layer_input": 32,
    "logit_scale": 0.5,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
    "rope.dimension_count": 32,
    "rope.dimension_count_swa": 32,
    "rope.dimension_sections": [4, 6, 6, 0],
    "rope.freq_base_swa": 10000.0,
    "use_parallel_residual": False,
    "n_deepstack_layers": 0,
    "vocab_size": ROWS,
    "activation_sparsity_scale": [0.0] * LAYERS,
    "altup.active_idx": 0,
    "altup.num_inputs": 4,
    "full_attention_interval": 4,
    "ssm.conv_kernel": 4,
    "ssm.state_size": 32,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 4,
    "ssm.inner_size": WIDTH,
    "shortconv.l_cache": 3,
    "kda.head_dim": 32,
}
"""The keys of all files, without the prefix of the architecture; each architecture reads some of them."""
EXPERT_KEYS: dict[str, Any] = {
    "expert_used_count": 2,
    "expert_feed_forward_length": EXPERT_FFN,
    "expert_shared_feed_forward_length": FFN,
    "expert_shared_count": 1,
    "expert_gating_func": 2,
    "expert_weights_scale": 1.0,
    "leading_dense_block_count": 1,
    "interleave_moe_layer_step": 1,
}
"""Those of files with experts, besides their number."""


class Model(NamedTuple):
    """A model of an architecture: whether embedding and output are tied, and its number of experts, 0 for none."""

    architecture: str
    tied: bool
    experts: int


def models(architecture: str) -> list[Model]:
    """One with an output matrix and one without; with 8 experts, for which there are rules, and more."""
    if ARCHITECTURES[architecture].router is no_router:
        return [Model(architecture, tied, 0) for tied in (False, True)]
    counts = (0, 8, 16) if architecture in WITH_AND_WITHOUT_EXPERTS else (8, 16)
    return [Model(architecture, tied, experts) for experts in counts for tied in (False, True)]


def tensors(model: Model) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a model's tensors. As in Gemma 4, every fourth layer has no matrix of values if it may."""
    facts = ARCHITECTURES[model.architecture]
    yield "token_embd.weight", (ROWS, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    if not model.tied:
        yield "output.weight", (ROWS, WIDTH)
    for tensor in facts.model_tensors:
        yield tensor.name, shape_of(tensor.shape, model.experts)
    for layer in range(LAYERS):
        for tensor in facts.block_tensors:
            shape = shape_of(tensor.shape, model.experts)
            if tensor.gguf == "attn_v" and tensor.optional and layer % 4 == 3:
                continue
            if has_either_mixer(facts) and (
                is_recurrent(tensor.gguf, facts) if layer % 4 == 3 else is_attention(tensor.gguf, facts)
            ):
                continue
            if 0 not in shape:
                yield f"blk.{layer}.{tensor.name}", shape


def has_either_mixer(facts: ArchitectureFacts) -> bool:
    """Whether layers have a recurrent mixer or attention, here attention in every fourth; not both side by side."""
    return facts.is_hybrid and facts.attention is not grouped_query_attention


def kv_heads(facts: ArchitectureFacts) -> int | list[int]:
    """KV heads: those of each layer where recurrent layers are told by having none, else one number."""
    by_layer = has_either_mixer(facts) and "attn_gate" not in facts.tensors
    return [2 if layer % 4 == 3 else 0 for layer in range(LAYERS)] if by_layer else 2


def is_recurrent(stem: str, facts: ArchitectureFacts) -> bool:
    """Whether a tensor is part of a recurrent mixer."""
    of_delta_net = "ssm_dt.bias" in facts.tensors and stem in ("attn_qkv", "attn_gate")
    of_kimi_delta = "ssm_conv1d_q" in facts.tensors and stem in ("attn_k", "attn_v")
    return of_delta_net or of_kimi_delta or stem.startswith(("ssm_", "shortconv"))


def is_attention(stem: str, facts: ArchitectureFacts) -> bool:
    """Whether a tensor is part of attention alone."""
    if "ssm_conv1d_q" in facts.tensors:
        return stem.startswith(("attn_q_", "attn_kv_", "attn_k_b", "attn_v_b"))
    return stem in (*ATTENTION, "attn_q_norm", "attn_k_norm")


def shape_of(sizes: tuple[Any, ...], experts: int) -> tuple[int, ...]:
    """A shape with few rows, but for the projections of q, k and v, whose rows tell how many heads there are."""
    *rows, columns = sizes
    columns = columns if isinstance(columns, int) else {"experts": experts}.get(columns, SIZES.get(columns, 32))
    known = {"q_width": 256, "k_width": 64, "v_width": 64, "qkv_width": 384, "experts": experts}
    return (*(row if isinstance(row, int) else known.get(row, ROWS) for row in rows), columns)


def write(path: Path, model: Model) -> Path:
    architecture = model.architecture
    writer = gguf.GGUFWriter(path, architecture)
    of_experts = EXPERT_KEYS | {"expert_count": model.experts} if model.experts else {}
    for name, value in (KEYS | {"attention.head_count_kv": kv_heads(ARCHITECTURES[architecture])} | of_experts).items():
        key = f"{architecture}.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        else:
            (writer.add_uint32 if isinstance(value, int) else writer.add_float32)(key, value)
    for name in ("alpha_n", "alpha_p", "beta", "eps"):
        writer.add_array(f"xielu.{name}", [0.5] * LAYERS)
    for name, shape in tensors(model):
        is_plain = len(shape) == 1 or shape[0] == 1 or not name.endswith("weight")
        is_plain |= name.endswith(("norm.weight", "_coef.weight", ".ffn_gate_inp.weight", "conv.weight"))
        is_plain |= "conv1d" in name
        writer.add_tensor(name, np.zeros(shape, np.float32 if is_plain else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_types_are_those_that_llama_cpp_gives(architecture: str, tmp_path: Path) -> None:
    for model in models(architecture):
        source = write(tmp_path / f"{model.tied}-{model.experts}.gguf", model)
        mixes = [mix for mix in MIXES if model.experts or mix != "MXFP4"]
        every = llama_cpp_types([Job(str(source), QUANT_MIXES[mix].file_type) for mix in mixes])
        for mix, theirs in zip(mixes, every, strict=True):
            with GGUFFile.open(source) as file:
                planned = assign_types(gguf_sources(file), mix, architecture)
            # llama.cpp makes all stacks MXFP4, those of latent attention, too.
            latent = [name for name in theirs if name.endswith(("_k_b.weight", "_v_b.weight"))]
            wanted = theirs | (dict.fromkeys(latent, "Q8_0") if mix == "MXFP4" else {})
            assert {tensor.source.name: tensor.type.name for tensor in planned} == wanted, (model, mix)
