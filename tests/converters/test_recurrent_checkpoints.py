"""Checkpoints of models with recurrent layers: names of the same list, and weights that are no numbers."""

from pathlib import Path

import pytest

from converters import convert
from edgellm.errors import ModelFileError
from support.described_checkpoint import Described
from support.families import CASES
from support.families.checkpoint import DrawnTensor, write_family_checkpoint
from support.families.references import load_reference


def test_either_name_of_the_list_of_layers(described: Described) -> None:
    """`transformers` takes `layers_block_type` of Granite 4 for `layer_types`."""
    name = "granite4_h_tiny"
    kinds = CASES[name].config["layer_types"]
    assert described(name, layer_types=..., layers_block_type=kinds)[0] == described(name)[0]
    with pytest.raises(ModelFileError, match="layers_block_type must have mamba or attention for each of 4 layers"):
        described(name, layer_types=..., layers_block_type=kinds[1:])


@pytest.mark.parametrize(
    ("name", "tensor", "value", "expected"),
    [
        ("mamba2", "A_log", 1000.0, "blk.0.ssm_a, row 0, column 0: holds -inf instead of a number"),
        ("kimi_linear_small", "A_log", 90.0, "blk.1.ssm_a, matrix 0, row 0, column 0: holds -inf instead of a"),
        ("falcon_h1", "embed_tokens.weight", 3e38, "token_embd.weight, row 0, column 0: holds inf instead of a number"),
    ],
)
def test_weights_too_large_for_float32_are_refused(
    tmp_path: Path, name: str, tensor: str, value: float, expected: str
) -> None:
    """Those of the checkpoint are numbers, those of GGUF would not be."""
    tensors = {
        key: DrawnTensor(each.shape, value, 0.0) if key.endswith(tensor) else each
        for key, each in load_reference(name).tensors.items()
    }
    folder = write_family_checkpoint(tmp_path / "in", CASES[name], tensors)
    with pytest.raises(ModelFileError) as error:
        convert(folder, tmp_path / "out.gguf", "BF16")
    assert expected in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
