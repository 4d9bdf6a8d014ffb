"""The record of what is particular to an architecture, read by `edgellm.arch` and by `converters.architectures`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import Activation, AttentionSettings, NormKind
from edgellm.arch.description import ModelScales
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import RecurrentSettings
from edgellm.arch.tensor_names import OUTPUT_NORM, FusedTensor, Size, TensorFacts


@dataclass(frozen=True)
class CheckpointClass:
    """A class of Hugging Face transformers whose checkpoints become GGUF files of the architecture.

    `name` is the entry of `architectures` in config.json. `defaults` are the values of transformers for keys that
    config.json may leave out, where they are not those of Llama: the published files of some models hold little more
    than what differs. `bias_keys` maps flags of config.json to the projections, by GGUF stem, that have a bias where
    the flag is true.

    A sliding window that is "always" there needs no flag; "by_flag" needs `use_sliding_window`, and is in some layers
    or all. With `dual_rope` the windowed layers have a RoPE of their own, without scaling.
    """

    name: str
    defaults: Mapping[str, object] = field(default_factory=dict)
    bias_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sliding_window: Literal["never", "always", "by_flag"] = "never"
    dual_rope: bool = False


def plain_settings(hyper: HyperParameters) -> ModelScales:
    """The settings of a model without scales and soft caps."""
    return ModelScales()


def dense(hyper: HyperParameters, layer: int) -> float | None:
    """No sparsity: feed-forwards use all values."""
    return None


def no_parameters(hyper: HyperParameters, layer: int) -> tuple[float, ...]:
    """The parameters of an activation that has none."""
    return ()


def no_recurrence(hyper: HyperParameters, layer: int) -> RecurrentSettings | None:
    """The settings of a layer without a recurrent mixer."""
    return None


def no_router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The router of a layer without a mixture of experts."""
    return None


def never(hyper: HyperParameters, layer: int) -> bool:
    """False for every layer."""
    return False


@dataclass(frozen=True)
class ArchitectureFacts:
    """One architecture, as GGUF files and checkpoints have it; see `edgellm.arch.architectures`.

    `name` is GGUF's `general.architecture`. `rope_type` is that of the GGUF file, `checkpoint_rope_type` that of
    checkpoints in Hugging Face's layout: where they differ, the converter permutes the rows of q and k.
    `block_tensors` are the weights of each layer; `edgellm.arch.layers` says what a tensor of each stem is.
    `fused_tensors` are tensors of layers that hold some of these in some checkpoints. `prediction_tensors` are those of
    layers for multi-token prediction beside `block_tensors` (see `edgellm.arch.prediction`).
    `model_tensors` are those outside of layers, besides the embedding, the last norm and the output matrix. `biases`
    are the GGUF stems of tensors that always have a bias, `optional_biases` of those that have one in some models.

    `norm_kind` and `activation` are those of all norms and feed-forwards; with `rms_norm_by_key`, files that have the
    epsilon of RMSNorm have RMS norms. With `parallel`, mixer and feed-forward read the same x. `ffn_norm_stem` is the
    norm before the feed-forward: some architectures call it `post_attention_norm`, which is the norm behind the mixer
    in the others. `output_norm_stem` is the norm before the output matrix, `output_norm_name` its name in checkpoints.
    With `norm_after_rope`, the norms of q and k follow RoPE. With `weightless_v_norm`, each head of v has an RMSNorm
    without a weight; `weightless_qk_norm` says which layers have one for q and k. `post_norm_eps` is the epsilon of the
    norms behind mixer and feed-forward, where it is not that of the others. With `norms_embedding`, a norm without a
    weight follows the embedding. `yarn_truncate` is for files without that key (`edgellm.arch.rope`).

    The result of shared experts is multiplied by `shared_experts_scale`.

    `attention` gives the settings of a layer's attention, `recurrent` those of its recurrent mixer, each None for
    layers without; `router` those of the choice of its experts, `settings` those of the model, `activation_parameters`
    those of a layer's activation, `sparsity` that of its feed-forward; they read the metadata, and refuse variants that
    edgellm does not compute.

    The last fields say what llama.cpp does. Its converter writes `attention.key_length` only where config.json has
    `head_dim`, or always with `writes_head_dim`; with `writes_vocab_size` it also writes `vocab_size` and
    `rope.dimension_count`. Without `optional_biases_in_llamacpp`, llama.cpp does not open files that have the biases of
    `bias_keys`.
    """

    name: str
    rope_type: RopeType
    block_tensors: tuple[TensorFacts, ...]
    fused_tensors: tuple[FusedTensor, ...] = ()
    prediction_tensors: tuple[TensorFacts, ...] = ()
    model_tensors: tuple[TensorFacts, ...] = ()
    checkpoints: tuple[CheckpointClass, ...] = ()
    biases: tuple[str, ...] = ()
    optional_biases: tuple[str, ...] = ()
    norm_kind: NormKind = NormKind.RMS
    rms_norm_by_key: bool = False
    activation: Activation = Activation.SILU
    shared_experts_scale: float = 1.0
    parallel: bool = False
    ffn_norm_stem: str = "ffn_norm"
    output_norm_stem: str = OUTPUT_NORM.gguf
    output_norm_name: str = "norm"
    norm_after_rope: bool = False
    weightless_v_norm: bool = False
    weightless_qk_norm: Callable[[HyperParameters, int], bool] = never
    post_norm_eps: float | None = None
    norms_embedding: bool = False
    yarn_truncate: bool = True
    attention: Callable[[HyperParameters, int], AttentionSettings | None] = grouped_query_attention
    router: Callable[[HyperParameters, int], RouterSettings | None] = no_router
    recurrent: Callable[[HyperParameters, int], RecurrentSettings | None] = no_recurrence
    settings: Callable[[HyperParameters], ModelScales] = plain_settings
    sparsity: Callable[[HyperParameters, int], float | None] = dense
    activation_parameters: Callable[[HyperParameters, int], tuple[float, ...]] = no_parameters
    checkpoint_rope_type: RopeType = RopeType.NEOX
    writes_head_dim: bool = True
    writes_vocab_size: bool = False
    optional_biases_in_llamacpp: bool = True

    @property
    def is_hybrid(self) -> bool:
        """Whether layers may have a recurrent mixer."""
        return self.recurrent is not no_recurrence

    @cached_property
    def output_norm(self) -> TensorFacts:
        """The norm before the output matrix."""
        meta = OUTPUT_NORM.meta if self.output_norm_stem == OUTPUT_NORM.gguf else None
        return replace(OUTPUT_NORM, gguf=self.output_norm_stem, hugging_face=self.output_norm_name, meta=meta)

    @cached_property
    def tensors(self) -> Mapping[str, TensorFacts]:
        """The tensors of a layer by their `gguf`."""
        return {tensor.gguf: tensor for tensor in self.block_tensors}

    @cached_property
    def shapes(self) -> Mapping[str, tuple[Size, ...]]:
        """The shape of each tensor of a layer, by its `gguf`."""
        return {tensor.gguf: tensor.shape for tensor in self.block_tensors}
