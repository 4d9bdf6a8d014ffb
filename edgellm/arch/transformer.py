"""Dense decoder-only transformers: what the Llama and Qwen families share, and a record of where they differ.

Pre-norm blocks of grouped-query attention and SwiGLU, RMSNorm, rotary positions, output tied to the embedding
where it has no tensor of its own.
"""

from dataclasses import dataclass

from edgellm.arch.description import Attention, Description, FeedForward, Layer, Linear, ModelSizes
from edgellm.arch.refuse import refuse
from edgellm.arch.rope import read_rope
from edgellm.arch.sizes import positive, read_sizes
from edgellm.arch.tensors import Tensors
from edgellm.gguf import GGUFFile, Tensor


@dataclass(frozen=True)
class Variant:
    """One architecture of the family.

    `halves`: RoPE pairs the halves of a head, otherwise neighbours. `biases` and `optional_biases` name the
    products ("attn_q", "ffn_up", …) that must have, or may have, a bias. `head_norms`: RMSNorm over each head of
    q and k.
    """

    halves: bool
    biases: tuple[str, ...] = ()
    optional_biases: tuple[str, ...] = ()
    head_norms: bool = False


def describe(file: GGUFFile, variant: Variant) -> Description:
    """The description of a file of the family. Raises ModelFileError and UnsupportedModelError."""
    if file.get_int(f"{file.architecture}.expert_count", 0) > 0:
        refuse(file, "mixture-of-experts models are not supported yet")
    if not file.get_bool(f"{file.architecture}.attention.causal", True):
        refuse(file, "models whose tokens see the ones after them write no text; they are not supported")
    sizes, tensors = read_sizes(file), Tensors(file)
    embedding = tensors.matrix("token_embd.weight", sizes.vocab, sizes.width)
    tied = "output.weight" not in tensors
    blocks = (f"blk.{i}." for i in range(positive(file, "block_count")))
    description = Description(
        **vars(sizes),
        rope=read_rope(file, sizes.head_dim, variant.halves),
        embedding=embedding,
        layers=tuple(_Block(tensors, block, sizes, variant).layer() for block in blocks),
        output_norm=tensors.vector("output_norm.weight", sizes.width),
        output=embedding if tied else tensors.matrix("output.weight", sizes.vocab, sizes.width),
    )
    tensors.finish("rope_freqs.weight")
    return description


@dataclass(frozen=True)
class _Block:
    """The tensors whose names begin with `prefix`."""

    tensors: Tensors
    prefix: str
    sizes: ModelSizes
    variant: Variant

    def layer(self) -> Layer:
        return Layer(self.attention(), self.feed_forward())

    def attention(self) -> Attention:
        width, head_dim = self.sizes.width, self.sizes.head_dim
        queries, keys = self.sizes.heads * head_dim, self.sizes.kv_heads * head_dim
        return Attention(
            norm=self.norm("attn_norm", width),
            q=self.linear("attn_q", queries, width),
            k=self.linear("attn_k", keys, width),
            v=self.linear("attn_v", keys, width),
            output=self.linear("attn_output", width, queries),
            q_norm=self.norm("attn_q_norm", head_dim) if self.variant.head_norms else None,
            k_norm=self.norm("attn_k_norm", head_dim) if self.variant.head_norms else None,
        )

    def feed_forward(self) -> FeedForward:
        width, ffn = self.sizes.width, self.sizes.ffn
        return FeedForward(
            norm=self.norm("ffn_norm", width),
            gate=self.linear("ffn_gate", ffn, width),
            up=self.linear("ffn_up", ffn, width),
            down=self.linear("ffn_down", width, ffn),
        )

    def norm(self, stem: str, n: int) -> Tensor:
        return self.tensors.vector(f"{self.prefix}{stem}.weight", n)

    def linear(self, stem: str, rows: int, columns: int) -> Linear:
        name, bias = self.prefix + stem, f"{self.prefix}{stem}.bias"
        allowed = stem in self.variant.optional_biases and bias in self.tensors
        has_bias = allowed or stem in self.variant.biases
        weight = self.tensors.matrix(f"{name}.weight", rows, columns)
        return Linear(weight, self.tensors.vector(bias, rows) if has_bias else None)
