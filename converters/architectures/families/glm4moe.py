"""GLM-4 with experts: the first layers are dense, and the last may be for multi-token prediction."""

from converters.architectures.experts import SIGMOID, lacks_of
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.prediction import write_prediction_layers
from converters.architectures.sizes import read_sizes_with_experts
from converters.tensors import Source


def has_experts(model: TextModel, layer: int) -> bool:
    """Whether a layer has experts: all behind the first `first_k_dense_replace`."""
    return layer >= model.config.integer("first_k_dense_replace", 1, least=0)


def write_leading_dense(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the number of first layers without experts."""
    count = model.config.integer("first_k_dense_replace", 1, least=0)
    keys.integer("leading_dense_block_count", min(count, model.sizes.layer_count - model.sizes.prediction_layers))


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    keys.integer("rope.dimension_count", int(sizes.head_dim[0] * model.rope.rotary_fraction))
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_count", config.integer("n_shared_experts", 1))
    write_leading_dense(keys, model)
    keys.integer("expert_gating_func", SIGMOID)
    keys.number("expert_weights_scale", config.number("routed_scaling_factor", 1.0, least=1e-9))
    keys.flag("expert_weights_norm", config.flag("norm_topk_prob", default=True))
    write_prediction_layers(keys, model)


def _check_head_norms(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors. Raises ModelFileError if config.json and the tensors disagree on whether heads are normed."""
    has_norms = {source.name for source in sources if ".attn_q_norm." in source.name}
    wanted = model.sizes.layer_count if model.config.flag("use_qk_norm") else 0
    if len(has_norms) != wanted:
        what = f"{len(has_norms)} layers have a norm of q, and by use_qk_norm {wanted} should"
        model.config.fail(f"{what}; get another copy of the checkpoint")
    return sources


FAMILY = Family(
    sizes=read_sizes_with_experts,
    write=_write,
    sources=_check_head_norms,
    lacks=lacks_of(has_experts),
    rope_kinds=("default", "dynamic", "mrope", "linear", "yarn"),
    partial_rotary=True,
)
