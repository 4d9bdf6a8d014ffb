"""The sizes of a layer, by the names that the shapes of its tensors have for them."""

from dataclasses import dataclass

from edgellm.arch.tensor_names import Size


@dataclass(frozen=True)
class LayerSizes:
    """Sizes of a layer; the shapes of tensors name them (see `edgellm.arch.tensor_names.Dimension`)."""

    width: int
    vocab: int
    ffn: int
    per_layer_width: int
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    q_width: int = 0
    k_width: int = 0
    v_width: int = 0
    attention_width: int = 0
    gate_width: int = 0
    experts: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    expert_latent: int = 0
    q_rank: int = 0
    plain_dim: int = 0
    head_value_dim: int = 0
    taps: int = 0
    conv_width: int = 0
    recurrent_heads: int = 0
    recurrent_head_dim: int = 0
    recurrent_width: int = 0
    recurrent_groups: int = 0
    state_dim: int = 0
    step_rank: int = 0

    @property
    def q_and_gate_width(self) -> int:
        """Rows of the fused projection of q and its gate."""
        return 2 * self.q_width

    @property
    def twice_recurrent_heads(self) -> int:
        """Rows of the fused projection of two values for each head of a recurrent mixer."""
        return 2 * self.recurrent_heads

    @property
    def recurrent_group_width(self) -> int:
        """Values of each group of the result of Mamba-2, which alone has groups."""
        return self.recurrent_width // max(1, self.recurrent_groups)

    @property
    def mamba_in_width(self) -> int:
        """Rows of the fused projection of Mamba-2: z, then x, B and C, then the step of each head."""
        return self.recurrent_width + self.conv_width + self.recurrent_heads

    @property
    def qkvz_width(self) -> int:
        """Rows of the fused projection of gated DeltaNet: q, k, v and z."""
        return self.conv_width + self.recurrent_width

    @property
    def twice_recurrent_width(self) -> int:
        """Rows of the fused projection of Mamba-1: x and z."""
        return 2 * self.recurrent_width

    @property
    def step_b_c_width(self) -> int:
        """Rows of the fused projection of Mamba-1: the values of the step, B and C."""
        return self.step_rank + 2 * self.state_dim

    @property
    def three_recurrent_widths(self) -> int:
        """Rows of the fused projection of a short convolution: b, c and x."""
        return 3 * self.recurrent_width

    @property
    def mixer_q_width(self) -> int:
        """Rows of the projection of q: of attention, or of a recurrent mixer in its place."""
        return self.q_width or self.recurrent_width

    @property
    def mixer_width(self) -> int:
        """Values of the result of all heads: of attention, or of a recurrent mixer in its place."""
        return self.attention_width or self.recurrent_width

    @property
    def twice_width(self) -> int:
        """Values of two hidden states side by side."""
        return 2 * self.width

    @property
    def qkv_width(self) -> int:
        """Rows of the fused projection of q, k and v."""
        return self.q_width + self.k_width + self.v_width

    @property
    def kv_b_width(self) -> int:
        """Rows of the projection of latents to keys and values of all heads."""
        return self.heads * (self.plain_dim + self.head_value_dim)

    @property
    def expert_width(self) -> int:
        """Values of what an expert reads, and of its result."""
        return self.expert_latent or self.width

    @property
    def gate_up(self) -> int:
        """Rows of the fused projection of gate and up."""
        return 2 * self.ffn

    @property
    def expert_gate_up(self) -> int:
        """Rows of the fused projection of an expert's gate and up."""
        return 2 * self.expert_ffn

    def shape(self, dimensions: tuple[Size, ...]) -> tuple[int, ...]:
        """The shape of a tensor, by the names of its dimensions."""
        return tuple(each if isinstance(each, int) else int(getattr(self, each)) for each in dimensions)
