"""The keys of a mixture of experts in a GGUF file, and which layers have one."""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from converters.architectures.config import Config
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.sizes import EXPERT_COUNTS, USED_EXPERTS, layer_count
from converters.tensors import Source
from edgellm.arch.tensor_names import FEED_FORWARD
from edgellm.fmt import printable

if TYPE_CHECKING:
    from converters.architectures.model import TextModel

SOFTMAX, SIGMOID = 1, 2
"""Values of `expert_gating_func` (ggml: llama_expert_gating_func_type)."""

_FUNCTIONS = {"softmax": SOFTMAX, "sigmoid": SIGMOID}
_FUNCTION_KEYS = (
    *("score_function", "scoring_func", "score_func"),
    *("moe_router_activation", "moe_router_activation_func", "expert_selection_fn"),
)
_GENERAL_COUNTS, _GENERAL_USED = EXPERT_COUNTS[:3], USED_EXPERTS[:3]
"""The keys that llama.cpp's converter knows in all architectures; families with others write their own numbers."""
_EXPERT_SIZES = {"experts", "expert_ffn", "expert_gate_up", "shared_ffn", "expert_latent"}


def write_experts(keys: ArchitectureKeys, model: "TextModel") -> None:
    """Add the keys that llama.cpp's converter writes for all architectures, each where config.json has its value."""
    config = model.config
    if any(key in config for key in _GENERAL_COUNTS):
        keys.integer("expert_count", model.sizes.experts)
    if any(key in config for key in _GENERAL_USED):
        keys.integer("expert_used_count", model.sizes.used_experts)
    for key, name in (("n_group", "expert_group_count"), ("topk_group", "expert_group_used_count")):
        if key in config:
            keys.integer(name, config.integer(key, most=model.sizes.experts))
    function = next((key for key in _FUNCTION_KEYS if key in config), None)
    if function:
        keys.integer("expert_gating_func", gating_function(config, function))


def gating_function(config: Config, key: str) -> int:
    """The value of `expert_gating_func` for that of `key`. Raises UnsupportedModelError for an unknown function."""
    name = config.word(key, "softmax")
    if name not in _FUNCTIONS:
        config.refuse(f"{key} {printable(name)} is not supported, only {' and '.join(_FUNCTIONS)}")
    return _FUNCTIONS[name]


def check_normalized(config: Config, key: str = "norm_topk_prob", *, default: bool = True) -> None:
    """Refuse weights of experts that do not add up to 1, by the flag `key`. Raises UnsupportedModelError."""
    if not config.flag(key, default):
        config.refuse(f"weights of experts that do not add up to 1 ({key}) are not supported: GGUF implies it")


def write_expert_widths(keys: ArchitectureKeys, model: "TextModel") -> None:
    """Add the width of an expert, and of the shared experts where there are any."""
    keys.integer("expert_feed_forward_length", model.sizes.expert_ffn)
    if model.sizes.shared_ffn:
        keys.integer("expert_shared_feed_forward_length", model.sizes.shared_ffn)


def dense_layers(config: Config, otherwise: int) -> int:
    """Number of first layers without experts, by `mlp_layer_types`, or by `first_k_dense_replace`, or `otherwise`.

    Raises UnsupportedModelError where other layers are dense.
    """
    layers, kinds = layer_count(config), config.names("mlp_layer_types")
    if not kinds:
        return min(layers, config.integer("first_k_dense_replace", otherwise, least=0))
    dense = next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    if len(kinds) < layers or {*kinds[dense:layers]} - {"sparse"}:
        config.refuse("mlp_layer_types other than some dense layers, then sparse ones, are not supported")
    return min(layers, dense)


def has_experts(model: "TextModel", layer: int) -> bool:
    """Whether a layer has experts: all behind the dense ones, of which there is one unless config.json says more."""
    return layer >= dense_layers(model.config, otherwise=1)


def write_leading_dense(keys: ArchitectureKeys, model: "TextModel") -> None:
    """Add the number of first layers without experts."""
    keys.integer("leading_dense_block_count", dense_layers(model.config, otherwise=1))


def lacks_of(has_experts: Callable[["TextModel", int], bool]) -> Callable[["TextModel", int], Collection[str]]:
    """`Family.lacks` of models some of whose layers have experts, and the others a feed-forward in their place."""

    def lacks(model: "TextModel", layer: int) -> Collection[str]:
        return FEED_FORWARD if has_experts(model, layer) else expert_stems(model)

    return lacks


def expert_stems(model: "TextModel") -> Collection[str]:
    """The GGUF stems of tensors that only layers with experts have."""
    gate = ("ffn_gate_inp", "ffn_gate_inp_shexp")
    tensors = model.facts.block_tensors
    return {each.name.split(".")[0] for each in tensors if each.gguf in gate or _EXPERT_SIZES & {*each.shape}}


class WeightCounts(NamedTuple):
    """Weights of a model: all, those outside of experts, those of one expert in all layers; and experts of a layer."""

    all: int
    shared: int
    expert: int
    experts: int


def count_weights(tensors: Iterable[Source]) -> WeightCounts:
    """The weights of these tensors, counted as the gguf package does for `general.size_label`."""
    total = shared = expert = 0
    counts = []
    for tensor in tensors:
        weights = tensor.row_count * tensor.columns
        total += weights
        if "_exps." not in tensor.name or len(tensor.shape) < 3:
            shared += weights
            continue
        experts = tensor.shape[-2 if ".bias" in tensor.name else -3]
        expert += weights // experts
        counts.append(experts)
    return WeightCounts(total, shared, expert, sum(counts) // len(counts) if counts else 0)
