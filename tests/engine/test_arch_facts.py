"""The facts of architectures: names as the gguf package has them, defaults as transformers has them."""

import gguf
import pytest

from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, OUTPUT_NORM

BY_ARCHITECTURE = pytest.mark.parametrize("facts", ARCHITECTURES.values(), ids=lambda facts: facts.name)
CLASSES = [each for facts in ARCHITECTURES.values() for each in facts.checkpoints]


@BY_ARCHITECTURE
def test_tensors_have_the_names_of_the_gguf_package(facts: ArchitectureFacts) -> None:
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[facts.name], 1)
    for tensor in facts.block_tensors:
        for theirs in filter(
            None, (f"model.layers.0.{tensor.hugging_face}", tensor.meta and f"layers.0.{tensor.meta}")
        ):
            assert names.get_name(theirs) == f"blk.0.{tensor.gguf}", theirs
    for tensor, prefix in ((EMBEDDING, "model."), (OUTPUT_NORM, "model."), (OUTPUT, "")):
        assert names.get_name(prefix + tensor.hugging_face) == names.get_name(tensor.meta) == tensor.gguf


@BY_ARCHITECTURE
def test_biases_are_those_of_matrices_of_the_layer(facts: ArchitectureFacts) -> None:
    matrices = {stem for stem, shape in facts.shapes.items() if len(shape) == 2}
    assert {*facts.biases, *facts.optional_biases} <= matrices
    assert not set(facts.biases) & facts.optional_biases


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
