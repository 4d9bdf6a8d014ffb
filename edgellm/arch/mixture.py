"""The mixture of experts of a layer: how its router chooses, and its tensors."""

from dataclasses import dataclass
from enum import Enum

from edgellm.arch.blocks import Activation, FeedForward, Linear, Norm, StackedLinear
from edgellm.gguf import Tensor


class Scoring(Enum):
    """How a router's logits become the scores of experts."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    SPARSE_MIXER = "sparse_mixer"
    """Each expert's score is that of a softmax of its own; see `kquants.experts.sparse_mixer`."""


@dataclass(frozen=True)
class RouterSettings:
    """How `used` experts of each token are chosen, and weighted; `kquants.records.RouteOp` has the formula.

    `groups` equal groups of experts compete first, by the sum of the `group_scores` largest scores of each; the
    `used_groups` best remain. With `normalized`, the weights of the chosen add up to 1 before `scale`. The logits are
    multiplied by `logit_scale` first. With `weighs_input` a weight multiplies what its expert reads, not its result.
    """

    experts: int
    used: int
    scoring: Scoring = Scoring.SOFTMAX
    normalized: bool = False
    scale: float = 1.0
    logit_scale: float = 1.0
    groups: int = 1
    used_groups: int = 1
    group_scores: int = 2
    weighs_input: bool = False


@dataclass(frozen=True, kw_only=True)
class Router(RouterSettings):
    """The router of a mixture of experts: `logits` is (experts, width).

    `selection_bias`, float32 [experts], is added to scores for the choice alone; `expert_scales`, float32 [experts],
    multiplies weights. With `norm` the router reads norm(x), where its experts read x behind another norm.
    """

    logits: Linear
    selection_bias: Tensor | None = None
    expert_scales: Tensor | None = None
    norm: Norm | None = None


@dataclass(frozen=True, kw_only=True)
class MixtureOfExperts:
    """Σ_j weight_j · down_j(f(gate_j(h)) · up_j(h)) over the experts j that the router chose for a token, h = norm(x).

    Without `gate` an expert is down_j(f(up_j(h))). `shared` is a feed-forward that all tokens pass, added to the sum,
    times `shared_scale`, and times sigmoid(`shared_gate`(h)) where there is one. Without a norm of its own it reads h;
    with one, its norm of x. With `latent_down` and `latent_up` the chosen experts read latent_down(h), and latent_up
    projects their sum (LatentMoE, Nemotron 3).
    `sum_norm` norms the sum of the chosen experts, and `shared.post_norm` what is shared; `post_norm` norms all.
    """

    norm: Norm | None
    router: Router
    gate: StackedLinear | None
    up: StackedLinear
    down: StackedLinear
    activation: Activation = Activation.SILU
    parameters: tuple[float, ...] = ()
    latent_down: Linear | None = None
    latent_up: Linear | None = None
    shared: FeedForward | None = None
    shared_gate: Linear | None = None
    shared_scale: float = 1.0
    sum_norm: Norm | None = None
    post_norm: Norm | None = None

    @property
    def stacks(self) -> tuple[StackedLinear, ...]:
        """The projections of all experts; gate and up may be parts of one tensor."""
        return (*([self.gate] if self.gate else []), self.up, self.down)

    @property
    def expert_bytes(self) -> int:
        """Bytes of the weights and biases of all experts."""
        tensors = {id(each): each for stack in self.stacks for each in (stack.weight, stack.bias) if each}
        return sum(tensor.nbytes for tensor in tensors.values())

    @property
    def used_bytes(self) -> int:
        """Bytes of the weights and biases of the experts that a token uses."""
        return self.expert_bytes // self.router.experts * self.router.used
