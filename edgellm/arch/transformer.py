"""Dense decoder-only transformers: from a file and the facts of its architecture to a description.

Pre-norm blocks of grouped-query attention and SwiGLU, RMSNorm, RoPE, and an output matrix that is the embedding where
the file has none.
"""

from dataclasses import dataclass

from edgellm.arch.description import Attention, Description, FeedForward, Layer, Linear, ModelSizes
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.refuse import refuse
from edgellm.arch.rope import read_rope
from edgellm.arch.sizes import read_sizes
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, OUTPUT_NORM, TensorFacts
from edgellm.arch.tensors import Tensors
from edgellm.gguf import GGUFFile, Tensor


def describe_transformer(file: GGUFFile, facts: ArchitectureFacts) -> Description:
    """The description of a file's model. Raises ModelFileError and UnsupportedModelError."""
    if file.get_int(f"{facts.name}.expert_count", 0) > 0:
        refuse(file, "mixture-of-experts models are not supported yet")
    if not file.get_bool(f"{facts.name}.attention.causal", True):
        refuse(file, "models whose tokens see the ones after them write no text; they are not supported")
    sizes, tensors = read_sizes(file), Tensors(file)
    embedding = _matrix(tensors, EMBEDDING, sizes)
    is_tied = f"{OUTPUT.gguf}.weight" not in tensors
    description = Description(
        **vars(sizes),
        rope=read_rope(file, sizes.head_dim, facts.rope_type),
        embedding=embedding,
        layers=tuple(_LayerReader(tensors, f"blk.{i}.", sizes, facts).layer() for i in range(sizes.layer_count)),
        output_norm=tensors.vector(f"{OUTPUT_NORM.gguf}.weight", *sizes.shape(OUTPUT_NORM.shape)),
        output=embedding if is_tied else _matrix(tensors, OUTPUT, sizes),
    )
    tensors.finish("rope_freqs.weight")
    return description


def _matrix(tensors: Tensors, facts: TensorFacts, sizes: ModelSizes) -> Tensor:
    rows, columns = sizes.shape(facts.shape)
    return tensors.matrix(f"{facts.gguf}.weight", rows, columns)


@dataclass(frozen=True)
class _LayerReader:
    """Takes the tensors whose names begin with `prefix`, with the shapes that the facts give."""

    tensors: Tensors
    prefix: str
    sizes: ModelSizes
    facts: ArchitectureFacts

    def layer(self) -> Layer:
        return Layer(self.attention(), self.feed_forward())

    def attention(self) -> Attention:
        return Attention(
            norm=self.norm("attn_norm"),
            q=self.linear("attn_q"),
            k=self.linear("attn_k"),
            v=self.linear("attn_v"),
            output=self.linear("attn_output"),
            q_norm=self.norm("attn_q_norm") if "attn_q_norm" in self.facts.shapes else None,
            k_norm=self.norm("attn_k_norm") if "attn_k_norm" in self.facts.shapes else None,
        )

    def feed_forward(self) -> FeedForward:
        return FeedForward(
            norm=self.norm("ffn_norm"),
            gate=self.linear("ffn_gate"),
            up=self.linear("ffn_up"),
            down=self.linear("ffn_down"),
        )

    def norm(self, stem: str) -> Tensor:
        return self.tensors.vector(f"{self.prefix}{stem}.weight", *self.sizes.shape(self.facts.shapes[stem]))

    def linear(self, stem: str) -> Linear:
        rows, columns = self.sizes.shape(self.facts.shapes[stem])
        weight = self.tensors.matrix(f"{self.prefix}{stem}.weight", rows, columns)
        bias = f"{self.prefix}{stem}.bias"
        has_bias = stem in self.facts.biases or (stem in self.facts.optional_biases and bias in self.tensors)
        return Linear(weight, self.tensors.vector(bias, rows) if has_bias else None)
