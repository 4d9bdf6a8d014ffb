"""MiniMax-M2: all experts chosen by sigmoids, heads rotated in part."""

from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, gating_function
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import read_sizes_with_experts

_FULL_ATTENTION = 1


def _check(config: Config) -> None:
    if gating_function(config, "scoring_func") != SIGMOID:
        config.refuse("experts chosen by other scores than sigmoids (scoring_func) are not supported")
    if config.word("qk_norm_type", "per_layer") != "per_layer":
        config.refuse("norms of q and k other than over whole projections (qk_norm_type) are not supported")
    if any(kind != _FULL_ATTENTION for kind in config.numbers("attn_type_list")):
        config.refuse("layers of linear attention (attn_type_list) are not supported; choose another model")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("expert_gating_func", SIGMOID)
    keys.integer("expert_feed_forward_length", model.sizes.expert_ffn)
    head_dim = model.sizes.head_dim[0]
    dims = int(head_dim * model.rope.rotary_fraction)
    keys.integer("rope.dimension_count", model.config.integer("rotary_dim", dims, most=head_dim))


FAMILY = Family(check=_check, sizes=read_sizes_with_experts, write=_write, partial_rotary=True)
