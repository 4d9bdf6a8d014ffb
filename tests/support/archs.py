"""The fixtures in shared/archs: tiny checkpoints, llama.cpp's GGUF files of them, and logits of `transformers`."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from numpy.typing import NDArray

from support import gguf_bytes as raw
from support.gguf_parts import GGUFParts

DENSE = {
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma2_27b": "gemma2",
    "gemma3": "gemma3",
    "gemma3_27b": "gemma3",
    "gemma3n": "gemma3n",
    "gemma4_e2b": "gemma4",
    "phi3_long": "phi3",
    "ministral3": "mistral3",
    "smollm3": "smollm3",
    "granite": "granite",
    "olmo2": "olmo2",
    "olmo3": "olmo2",
    "cohere2": "cohere2",
    "glm4": "glm4",
    "exaone4": "exaone4",
    "ernie4_5": "ernie4_5",
    "hunyuan_dense": "hunyuan-dense",
    "seed_oss": "seed_oss",
    "starcoder2": "starcoder2",
    "stablelm": "stablelm",
    "apertus": "apertus",
    "muse_glimmer": "muse-glimmer",
    "qwen3_embedding": "qwen3",
}
"""The `general.architecture` of each fixture that is a dense decoder."""

EXPERTS = {
    "qwen3_moe": "qwen3moe",
    "qwen2_moe": "qwen2moe",
    "minimax_m2": "minimax-m2",
    "gemma4_moe": "gemma4",
    "granitemoe": "granitemoe",
    "ernie4_5_moe": "ernie4_5-moe",
    "glm4_moe": "glm4moe",
    "llama4": "llama4",
    "deepseek_v2_lite": "deepseek2",
    "deepseek_v3": "deepseek2",
    "gpt_oss": "gpt-oss",
    "gpt_oss_notrunc": "gpt-oss",
}
"""The same of each fixture whose layers have experts, some or all."""

HYBRIDS = {
    "qwen3_5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_next": "qwen3next",
    "lfm2": "lfm2",
    "lfm2_moe": "lfm2moe",
    "granitehybrid": "granitehybrid",
    "nemotron_h": "nemotron_h",
    "nemotron_h_moe": "nemotron_h_moe",
    "falcon_h1": "falcon-h1",
    "mamba2": "mamba2",
}
"""The architecture of each fixture with recurrent layers."""

DECODERS = DENSE | EXPERTS | HYBRIDS

ADDED_KEYS: dict[str, dict[str, bool]] = {
    "gpt_oss": {"gpt-oss.rope.scaling.yarn_truncate": True},
    "gpt_oss_mxfp4": {"gpt-oss.rope.scaling.yarn_truncate": True},
}
"""The keys that edgellm's converter writes beside those of llama.cpp's file, which says the same of other models."""

GREEDY = Path(__file__).with_name("golden") / "archs_greedy.json"
"""The 8 ids by which `transformers` continues each fixture's ids in float64, as make_family_references writes them."""


@dataclass(frozen=True)
class ArchFixture:
    """One fixture: the folder of its checkpoint and the path of its GGUF file, F32 but for MXFP4 experts."""

    checkpoint: Path
    gguf: Path

    @classmethod
    def of(cls, shared: Path, name: str) -> "ArchFixture":
        """The fixture `name` below the folder `shared`."""
        folder = shared / "archs" / name
        return cls(folder, next(folder.glob("model-*.gguf"), folder / "model-f32.gguf"))

    def completed(self, folder: Path) -> "ArchFixture":
        """The fixture with a file that has ADDED_KEYS, too, in `folder` where there are any."""
        added = ADDED_KEYS.get(self.checkpoint.name)
        if added is None:
            return self
        parts, path = GGUFParts.read(self.gguf), folder / self.gguf.name
        pairs = {key: raw.pair(key, raw.BOOL, raw.number(raw.BOOL, value)) for key, value in added.items()}
        path.write_bytes(replace(parts, pairs=parts.pairs | pairs).build())
        return replace(self, gguf=path)

    @property
    def ids(self) -> list[int]:
        """The 48 ids that the logits are of."""
        ids: list[int] = self._reference("ids").tolist()
        return ids

    @property
    def logits(self) -> NDArray[np.float64]:
        """The logits of `transformers` in float64, (48, vocabulary).

        An embedding model's reference has the normed output of its last layer; its logits are those over the
        embeddings, as a tied head gives them.
        """
        with np.load(self.checkpoint / "reference.npz") as file:
            if "logits64" in file:
                logits: NDArray[np.float64] = file["logits64"]
                return logits
            hidden: NDArray[np.float64] = file["hidden64"]
        embedding = next(t.data for t in GGUFReader(self.gguf).tensors if t.name == "token_embd.weight")
        return hidden @ embedding.astype(np.float64).T

    def greedy(self) -> list[int]:
        """The stored continuation of `ids`."""
        ids: list[int] = json.loads(GREEDY.read_text(encoding="utf-8"))[self.checkpoint.name]
        return ids

    def _reference(self, key: str) -> NDArray[np.int64]:
        with np.load(self.checkpoint / "reference.npz") as file:
            values: NDArray[np.int64] = file[key]
        return values
