"""GLM-4 with experts: the first layers are dense, and the last may be for multi-token prediction."""

from converters.architectures.experts import SIGMOID, has_experts, lacks_of, write_leading_dense
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.prediction import write_prediction_layers
from converters.architectures.sizes import read_sizes_with_experts
from converters.tensors import Source


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
    wanted = model.sizes.layer_count if model.config.flag("use_qk_norm") else 0
    for which in ("q", "k"):
        count = sum(f".attn_{which}_norm." in source.name for source in sources)
        if count != wanted:
            what = f"{count} layers have a norm of {which}, and by use_qk_norm {wanted} should"
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
