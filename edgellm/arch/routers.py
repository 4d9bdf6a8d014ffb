"""The settings of routers, from the metadata. Some architectures have functions of their own for this."""

from dataclasses import replace

from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings, Scoring
from edgellm.arch.refuse import refuse

_SCORING = {1: Scoring.SOFTMAX, 2: Scoring.SIGMOID}


def keyed_router(hyper: HyperParameters, layer: int, scoring: Scoring = Scoring.SIGMOID) -> RouterSettings | None:
    """The router that the keys of DeepSeek-V3 (arXiv 2412.19437), and of the models after it, describe.

    The first `leading_dense_block_count` layers have none. Keys that a file lacks mean `scoring`, weights that are not
    normalized, no scale, and no groups. Raises ModelFileError and UnsupportedModelError.
    """
    if layer < leading_dense_layers(hyper):
        return None
    groups, used_groups = expert_groups(hyper)
    return RouterSettings(
        experts=hyper.experts,
        used=hyper.used_experts,
        scoring=scoring_of(hyper, scoring),
        normalized=hyper.file.get_bool(hyper.key("expert_weights_norm"), False),
        scale=hyper.number("expert_weights_scale", 1.0),
        groups=groups,
        used_groups=used_groups,
    )


def normalized_keyed_router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The same of models whose weights add up to 1 whatever `expert_weights_norm` says."""
    settings = keyed_router(hyper, layer)
    return replace(settings, normalized=True) if settings else None


def normalized_softmax(hyper: HyperParameters, layer: int) -> RouterSettings:
    """The router of all layers: softmax over the logits of the chosen experts, without any key."""
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, normalized=True)


def leading_dense_layers(hyper: HyperParameters) -> int:
    """Number of first layers with a dense feed-forward. The other layers have experts."""
    name = "leading_dense_block_count"
    count = hyper.integer(name, 0)
    if not 0 <= count <= hyper.layer_count:
        hyper.file.fail(f"key {hyper.key(name)} is {count} of {hyper.layer_count} layers; get another conversion")
    if count < hyper.layer_count and not hyper.experts:
        hyper.file.fail(f"has no experts at key {hyper.key('expert_count')}; get another conversion of the model")
    return count


def scoring_of(hyper: HyperParameters, default: Scoring) -> Scoring:
    """How logits become scores, by `expert_gating_func`."""
    name = "expert_gating_func"
    if name not in hyper or not (number := hyper.integer(name)):
        return default
    if number not in _SCORING:
        refuse(hyper.file, f"key {hyper.key(name)} is {number}; routers with softmax (1) and sigmoid (2) are supported")
    return _SCORING[number]


def expert_groups(hyper: HyperParameters) -> tuple[int, int]:
    """Groups of experts, and how many of them remain for the choice; one group is none."""
    groups, key = hyper.integer("expert_group_count", 1), hyper.key("expert_group_count")
    if groups in (0, 1):
        return 1, 1
    if groups < 0 or hyper.experts % groups or hyper.experts == groups:
        hyper.file.fail(f"key {key} is {groups}, for {hyper.experts} experts; get another conversion of the model")
    used, key = hyper.integer("expert_group_used_count", groups), hyper.key("expert_group_used_count")
    if not 0 < used <= groups or used * (hyper.experts // groups) < hyper.used_experts:
        what = f"key {key} is {used} of {groups} groups, for {hyper.used_experts} experts of each token"
        hyper.file.fail(f"{what}; get another conversion of the model")
    return groups, used
