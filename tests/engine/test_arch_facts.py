"""The facts of architectures: names as the gguf package has them, defaults as transformers has them."""

import gguf
import pytest

from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.description import NormKind
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, OUTPUT_NORM

BY_ARCHITECTURE = pytest.mark.parametrize("facts", ARCHITECTURES.values(), ids=lambda facts: facts.name)
CLASSES = [each for facts in ARCHITECTURES.values() for each in facts.checkpoints]


@BY_ARCHITECTURE
def test_tensors_have_the_names_of_the_gguf_package(facts: ArchitectureFacts) -> None:
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    if facts.name not in numbers:
        pytest.skip(f"the gguf package does not know {facts.name}")
    names = gguf.get_tensor_name_map(numbers[facts.name], 1)
    for tensor in facts.block_tensors:
        for theirs in filter(
            None, (f"model.layers.0.{tensor.hugging_face}", tensor.meta and f"layers.0.{tensor.meta}")
        ):
            assert names.get_name(theirs) == f"blk.0.{tensor.gguf}", theirs
    for tensor, prefix in ((EMBEDDING, "model."), (OUTPUT_NORM, "model.")):
        assert names.get_name(prefix + tensor.hugging_face) == names.get_name(tensor.meta) == tensor.gguf
    assert names.get_name(OUTPUT.hugging_face) in (OUTPUT.gguf, None), "None: embeddings are always tied"


@BY_ARCHITECTURE
def test_biases_are_those_of_tensors_of_the_layer(facts: ArchitectureFacts) -> None:
    by_flags = {stem for each in facts.checkpoints for stems in each.bias_keys.values() for stem in stems}
    assert by_flags <= {*facts.biases, *facts.optional_biases} <= facts.shapes.keys()
    assert not set(facts.biases) & set(facts.optional_biases)
    norms = {stem for stem in facts.biases if len(facts.shapes[stem]) == 1}
    assert not norms or facts.norm_kind is NormKind.LAYER, "RMSNorm has no bias"


def test_no_class_belongs_to_two_architectures() -> None:
    assert len({each.name for each in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("checkpoint", CLASSES, ids=lambda each: each.name)
def test_defaults_are_those_of_transformers(checkpoint: CheckpointClass) -> None:
    from transformers import AutoConfig

    config = AutoConfig.for_model(checkpoint.name.removesuffix("ForCausalLM").lower())
    kv_heads = checkpoint.kv_heads or config.num_attention_heads
    assert (checkpoint.context_length, kv_heads) == (config.max_position_embeddings, config.num_key_value_heads)
    if checkpoint.head_dim:
        assert checkpoint.head_dim == config.head_dim
    flags = {key for key in ("attention_bias", "mlp_bias") if hasattr(config, key)}
    assert checkpoint.bias_keys.keys() <= flags
    slides = {"never": False, "always": True, "by_layer": False}[checkpoint.sliding_window]
    assert bool(getattr(config, "sliding_window", None)) is slides
    assert hasattr(config, "use_sliding_window") is (checkpoint.sliding_window == "by_layer")
