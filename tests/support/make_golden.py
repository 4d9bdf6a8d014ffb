"""Write down what llama.cpp's own converter makes of the checkpoints of golden_cases.py.

    python -m support.make_golden LLAMA_CPP [SHARED]

LLAMA_CPP is the folder with convert_hf_to_gguf.py, SHARED that of the trained models. Needs torch, transformers, gguf,
sentencepiece and safetensors; the tests that compare with the result need neither torch nor the converter.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

# The converter has a gguf package of its own.
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]) / "gguf-py")]

import gguf  # noqa: E402
import torch  # noqa: E402

from support.golden_cases import CASES, GOLDEN, Case, facts  # noqa: E402


def convert(case: Case, source: Path, target: Path) -> None:
    """Convert as the command does, but for the pre-tokenizer's name: it refuses hashes of unpublished models."""
    from conversion import get_model_class
    from conversion.base import ModelBase, ModelType, TextModel, get_model_architecture

    kind: Any = {"f32": 0, "f16": 1, "bf16": 32}[case.outtype]
    TextModel.get_vocab_base_pre = lambda self, tokenizer: case.pre
    hparams = ModelBase.load_hparams(source, False)
    architecture = get_model_architecture(hparams, ModelType.TEXT)
    get_model_class(architecture)(source, gguf.LlamaFileType(kind), target).write()


def main() -> None:
    """Convert all cases."""
    logging.disable(logging.WARNING)
    for name, case in CASES.items():
        if case.options is None and len(sys.argv) < 3:
            continue
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            source = case.write(Path(folder)) if case.options is not None else Path(sys.argv[2], "models", name)
            target = Path(folder) / "out.gguf"
            convert(case, source, target)
            (GOLDEN / f"{name}.json").write_text(_lines(facts(target)), encoding="utf-8")


def _lines(made: dict[str, Any]) -> str:
    """JSON with a line for each key and each tensor."""
    parts = (f' "{part}": {{\n' + ",\n".join(_entries(pairs)) + "\n }" for part, pairs in made.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _entries(pairs: dict[str, Any]) -> list[str]:
    return [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in pairs.items()]


if __name__ == "__main__":
    main()
