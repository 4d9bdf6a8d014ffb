"""Write down what llama.cpp's own converter makes of the checkpoints of golden_cases.py and of the families.

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

from support import families  # noqa: E402
from support.eagle3_heads import HEADS, TARGET, write_head  # noqa: E402
from support.families.checkpoint import write_family_checkpoint  # noqa: E402
from support.families.references import load_reference  # noqa: E402
from support.gemma_assistants import VOCAB, write_assistant_checkpoint  # noqa: E402
from support.golden_cases import (  # noqa: E402
    CASES,
    CONVERTED_FAMILIES,
    CONVERTED_HEADS,
    GOLDEN,
    REFUSED_FAMILIES,
    Case,
    facts,
    without_tokenizer,
)
from support.make_checkpoint import write_checkpoint  # noqa: E402


def converter_of(source: Path, pre: str) -> Any:
    """The converter's class for a checkpoint. It refuses the hashes of unpublished tokenizers, so `pre` is given."""
    from conversion import get_model_class
    from conversion.base import ModelBase, ModelType, TextModel, get_model_architecture

    TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    hparams = ModelBase.load_hparams(source, False)
    return get_model_class(get_model_architecture(hparams, ModelType.TEXT))


def convert(case: Case, source: Path, target: Path) -> None:
    """Convert as the command does, but for the pre-tokenizer's name."""
    kind: Any = {"f32": 0, "f16": 1, "bf16": 32}[case.outtype]
    converter_of(source, case.pre)(source, gguf.LlamaFileType(kind), target).write()


def convert_family(name: str, source: Path, target: Path) -> None:
    """Convert the case `name` to BF16, with the tokenizer of the checkpoint in place of the family's."""
    converter = converter_of(source, "qwen2")

    class OfFamily(converter):  # type: ignore[misc]
        model_arch = converter.model_arch
        # The converter asks for layers for multi-token prediction of Qwen's hybrid models, unless it is told of none.
        no_mtp = not load_reference(name).tensors.keys() & {"mtp.fc.weight"}

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            # The converter asks for this key of Gemma 4, which configurations of newer models do not have.
            self.hparams.setdefault("moe_intermediate_size", None)

        def set_vocab(self) -> None:
            self._set_vocab_gpt2()

        def modify_tensors(self, tensor: Any, name: str, layer: int | None) -> Any:
            # The converter returns the stacked norms of StableLM from a generator, where they are lost.
            yield from (yield from super().modify_tensors(tensor, name, layer)) or ()

    # transformers adds counts of experts to a dense Nemotron-H, by which the converter takes it for one with experts.
    own = {"hparams": dict(families.CASES[name].config)} if name == "nemotron_h" else {}
    OfFamily(source, gguf.LlamaFileType(32), target, **own).write()


def convert_families() -> None:
    """Convert the checkpoints of all families."""
    CONVERTED_FAMILIES.mkdir(exist_ok=True)
    for name, case in families.CASES.items():
        if name in REFUSED_FAMILIES:
            continue
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            source = write_family_checkpoint(Path(folder) / "model", case, load_reference(name).tensors)
            convert_family(name, source, Path(folder) / "out.gguf")
            made = without_tokenizer(facts(Path(folder) / "out.gguf"))
            (CONVERTED_FAMILIES / f"{name}.json").write_text(_lines(made), encoding="utf-8")


def convert_heads() -> None:
    """Convert the heads of EAGLE-3 to Q8_0, whose files have the vocabulary of their target, and the assistant."""
    CONVERTED_HEADS.mkdir(exist_ok=True)
    for name, head in HEADS.items():
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            target, out = write_checkpoint(Path(folder) / "target", **TARGET), Path(folder) / "out.gguf"
            source = write_head(Path(folder) / "checkpoint", head)
            converter_of(source, "llama-bpe")(source, gguf.LlamaFileType(7), out, target_model_dir=target).write()
            (CONVERTED_HEADS / f"{name}.json").write_text(_lines(facts(out)), encoding="utf-8")
    convert_assistant()


def convert_assistant() -> None:
    """Convert the assistant of Gemma 4 to Q8_0, without a tokenizer: the converter counts its tokens alone."""
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        source, out = write_assistant_checkpoint(Path(folder) / "checkpoint"), Path(folder) / "out.gguf"
        tokens = {"model": {"vocab": {str(i): i for i in range(VOCAB)}}, "added_tokens": []}
        (source / "tokenizer.json").write_text(json.dumps(tokens), encoding="utf-8")
        converter = converter_of(source, "")

        class WithoutTokenizer(converter):  # type: ignore[misc]
            model_arch = converter.model_arch

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                self.hparams.setdefault("moe_intermediate_size", None)

            def set_vocab(self) -> None:
                pass

        WithoutTokenizer(source, gguf.LlamaFileType(7), out).write()
        (CONVERTED_HEADS / "assistant.json").write_text(_lines(facts(out)), encoding="utf-8")


def main() -> None:
    """Convert all cases."""
    logging.disable(logging.WARNING)
    convert_families()
    convert_heads()
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
