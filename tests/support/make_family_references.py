"""Compute what `transformers` makes of the checkpoints of `support.families`, in float64.

    python -m support.make_family_references [NAME ...]      all cases without a NAME
    python -m support.make_family_references --archs SHARED  the greedy text of the fixtures in SHARED/archs
    python -m support.make_family_references --long SHARED   long runs of those with recurrent layers

Needs torch and transformers (made with torch 2.13.0 and transformers 5.24.0), which the tests that compare with the
results do not. Prints the size of each file.
"""

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import safe_open

from support.archs import DECODERS, GREEDY, HYBRIDS, ArchFixture
from support.checkpoint_tokenizers import write_json
from support.families import CASES, FamilyCase, ling
from support.families.case import VOCABULARY
from support.families.checkpoint import DrawnTensor, write_family_checkpoint
from support.families.llama4 import CHUNKED_CASES
from support.families.references import FAMILY_REFERENCES, IDS, POSITIONS, FamilyReference, save_reference
from support.families.wide import WIDE_CASES
from support.long_runs import LONG_IDS, LONG_POSITIONS, LONG_RUNS

_GAIN = 1.4
_WANTED_SPREAD = 2.0
# Numbers that decide how a layer works and that no checkpoint has at random.
_FIXED = {"act_fn.beta": 0.5, "act_fn.eps": -1e-6}
# Published checkpoints have another name for some classes than `transformers`.
_OWN_NAMES = {"PhiMoEForCausalLM": "PhimoeForCausalLM"}


def model_class(case: FamilyCase) -> Any:
    """The class of `transformers` that config.json names."""
    return class_named(case.config["architectures"][0])


def class_named(name: str) -> Any:
    """The class of `transformers` for the name of a class in config.json."""
    return getattr(transformers, _OWN_NAMES.get(name, name))


def empty_tensors(case: FamilyCase) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint as `transformers` saves and first fills them."""
    if case.config["architectures"] == [ling.CLASS]:
        return ling.renamed(empty_tensors(replace(case, config=ling.as_glm(case.config))))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_json(folder / "config.json", case.config)
        config = transformers.AutoConfig.from_pretrained(folder)
        torch.manual_seed(0)
        model_class(case)(config).save_pretrained(folder / "saved")
        with safe_open(folder / "saved" / "model.safetensors", "pt") as file:
            tensors = {_published(key): file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    return tensors | unread_keys_and_values(case, tensors) | of_prediction(case, tensors) | kept_apart(case, tensors)


def _published(name: str) -> str:
    """The published name of a tensor; `transformers` saves the dense layers of Kimi Linear under another."""
    dense = re.compile(r"\.block_sparse_moe\.(gate|up|down)_proj\.")
    return dense.sub(r".mlp.\1_proj.", name)


def unread_keys_and_values(case: FamilyCase, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """k, v and their norms of the layers that share those of an earlier one.

    The published checkpoints have them, and nothing reads them.
    """
    text = case.config.get("text_config", case.config)
    shared, kinds = text.get("num_kv_shared_layers", 0), text.get("layer_types", [])
    added = {}
    for i in range(len(kinds) - shared, len(kinds)):
        source = max(j for j in range(len(kinds) - shared) if kinds[j] == kinds[i])
        for name, tensor in tensors.items():
            if f"language_model.layers.{source}.self_attn." in name or name.startswith(f"model.layers.{source}.self_"):
                added[name.replace(f".{source}.", f".{i}.")] = tensor
    return {name: tensor for name, tensor in added.items() if name not in tensors}


def of_prediction(case: FamilyCase, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The layers for multi-token prediction, as published checkpoints have them: behind the others, and like the last.

    `transformers` reads none of them, and saves none.
    """
    layers, width = case.config.get("num_hidden_layers", 0), case.config.get("hidden_size", 0)
    added = {}
    for i in range(layers, layers + case.config.get("num_nextn_predict_layers", 0)):
        last, own = f"model.layers.{layers - 1}.", f"model.layers.{i}."
        added |= {name.replace(last, own): tensor for name, tensor in tensors.items() if name.startswith(last)}
        added |= {f"{own}{name}.weight": torch.ones(width) for name in ("enorm", "hnorm", "shared_head.norm")}
        added[f"{own}eh_proj.weight"] = torch.zeros(width, 2 * width)
    return added


def kept_apart(case: FamilyCase, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The layer for multi-token prediction of Qwen's hybrid models: like the last one with attention."""
    text, name = case.config.get("text_config", case.config), case.config["model_type"]
    if not text.get("mtp_num_hidden_layers") and name != "qwen3_next":
        return {}
    last = max(int(name.split("layers.")[1].split(".")[0]) for name in tensors if ".self_attn." in name)
    own, width = f"layers.{last}.", text["hidden_size"]
    added = {f"mtp.layers.0.{name.split(own)[1]}": tensor for name, tensor in tensors.items() if own in name}
    norms = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    added |= {f"mtp.{name}.weight": torch.zeros(width) for name in norms}
    return added | {"mtp.fc.weight": torch.zeros(width, 2 * width)}


def drawn(case: FamilyCase, name: str, tensor: torch.Tensor) -> DrawnTensor:
    """How the numbers of a tensor are spread: activations keep a size near 1, logits spread over a few units."""
    shape, config = tuple(tensor.shape), case.config.get("text_config", case.config)
    fixed = [value for suffix, value in _FIXED.items() if name.endswith(suffix)]
    if fixed:
        return DrawnTensor(shape, fixed[0], 0.0)
    if name.endswith(("alpha_p", "alpha_n")):
        return DrawnTensor(shape, 0.6, 0.15)
    if name.endswith("A_log"):  # states that last from a few tokens to hundreds
        return DrawnTensor(shape, -3.0, 1.5)
    if name.endswith("bias"):
        return DrawnTensor(shape, 0.0, 0.2)
    if len(shape) <= 1:
        return DrawnTensor(shape, 1.0 if float(tensor.float().mean()) > 0.5 else 0.0, 0.1)
    if "embed" in name and "per_layer" in name and shape[0] == VOCABULARY:
        return DrawnTensor(shape, 0.0, config["hidden_size_per_layer_input"] ** -0.5)
    if shape[0] == VOCABULARY:
        return DrawnTensor(shape, 0.0, 2 * config["hidden_size"] ** -0.5)
    return DrawnTensor(shape, 0.0, _GAIN * shape[-1] ** -0.5)


def opened(folder: Path) -> Any:
    """The model of a checkpoint in float64."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = config["architectures"][0]
    if name == ling.CLASS:
        with tempfile.TemporaryDirectory() as other:
            return opened(ling.write_as_glm(folder, config, Path(other)))
    model, report = class_named(name).from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",  # the others compute no float64
        output_loading_info=True,
    )
    beyond = f"model.layers.{model.config.get_text_config().num_hidden_layers}."  # of multi-token prediction
    report["unexpected_keys"] = {key for key in report["unexpected_keys"] if not key.startswith(beyond)}
    wrong = {key: value for key, value in report.items() if value}
    assert not wrong, f"{folder}: {wrong}"
    return model.double().eval()


def logits_of(model: Any, ids: list[int]) -> NDArray[np.float64]:
    """The logits of every position, (n, vocabulary)."""
    if isinstance(model, transformers.Llama4ForConditionalGeneration):
        model = model.language_model  # its own forward pass asks for an output that the text model does not have
    with torch.inference_mode(), float64_throughout():
        logits: NDArray[np.float64] = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()
    assert logits.dtype == np.float64
    return logits


@contextmanager
def float64_throughout() -> Iterator[None]:
    """Let `transformers` compute in float64 what it computes in float32 whatever the type of the weights."""
    single, as_single = torch.float32, torch.Tensor.float
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double  # type: ignore[misc, method-assign]
    try:
        yield
    finally:
        torch.float32, torch.Tensor.float = single, as_single  # type: ignore[misc, method-assign]


def reference_of(case: FamilyCase) -> FamilyReference:
    """The reference; the head, or the embeddings that it is tied to, is scaled until logits have the wanted spread."""
    tensors = {name: drawn(case, name, tensor) for name, tensor in empty_tensors(case).items()}
    heads = [name for name in tensors if name.endswith("lm_head.weight")]
    heads = heads or [name for name in tensors if name.endswith(("embed_tokens.weight", "embeddings.weight"))]
    (head,) = heads
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            model = opened(write_family_checkpoint(Path(folder), case, tensors))
            logits = logits_of(model, IDS)
            ratio = _WANTED_SPREAD / logits.std()
            if 0.7 < ratio < 1.5:
                break
            tensors[head] = tensors[head]._replace(deviation=float(tensors[head].deviation * ratio))
    return FamilyReference(tensors, logits[POSITIONS], greedy(model, IDS))


def greedy(model: Any, prompt: list[int]) -> list[int]:
    """The 8 ids that follow `prompt`, each the likeliest."""
    ids = list(prompt)
    for _ in range(8):
        ids.append(int(logits_of(model, ids)[-1].argmax()))
    return ids[len(prompt) :]


def make_greedy(shared: Path) -> None:
    """Write the greedy continuation of each fixture of shared/archs."""
    fixtures = {name: ArchFixture.of(shared, name) for name in DECODERS}
    made = {name: greedy(opened(each.checkpoint), each.ids) for name, each in fixtures.items()}
    lines = (f'  "{name}": {json.dumps(ids)}' for name, ids in made.items())
    GREEDY.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def make_long_runs(shared: Path) -> None:
    """Write logits far into a long sequence, of each fixture of shared/archs with recurrent layers.

    Of Nemotron-H, `transformers` lets no step be below `time_step_min`, whatever `time_step_limit` says. GGUF has no
    key for this, and llama.cpp has no such bound.
    """
    models = {name: opened(ArchFixture.of(shared, name).checkpoint) for name in HYBRIDS}
    for model in models.values():
        for module in model.modules():
            if hasattr(module, "time_step_limit"):
                module.time_step_limit = (0.0, math.inf)
    made = {name: logits_of(model, LONG_IDS)[LONG_POSITIONS].astype(np.float32) for name, model in models.items()}
    np.savez_compressed(LONG_RUNS, **made)  # type: ignore[arg-type]


def main() -> None:
    """Make the references that the command line names."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--archs"]:
        make_greedy(Path(sys.argv[2]))
        return
    if sys.argv[1:2] == ["--long"]:
        make_long_runs(Path(sys.argv[2]))
        return
    cases = CASES | WIDE_CASES | CHUNKED_CASES
    for name in sys.argv[1:] or cases:
        reference = reference_of(cases[name])
        if name in WIDE_CASES:  # quantized, they have other logits: only the tensors matter
            reference = replace(reference, logits=reference.logits[:0], greedy=[])
        save_reference(name, reference)
        nbytes = (FAMILY_REFERENCES / f"{name}.npz").stat().st_size
        print(f"{name:20} {len(reference.tensors):4} tensors, {nbytes} bytes")


if __name__ == "__main__":
    main()
