"""The roofline of decoding: bytes that a token reads and multiplies, and the tokens per second to expect of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgellm.arch.blocks import Linear
from edgellm.arch.description import Description, parts_in, tensors_in
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.engine.placement import GPU, Placement, feed_forward, mixer
from edgellm.perf.machine_profile import MEMORY
from kquants.kv_layout import PAGE, layer_page_bytes

LAYER_S, LAYER_ONE_THREAD_S = 20e-6, 6e-6
"""Seconds of a layer beside reading and multiplying: barriers, norms, activations; the latter with one thread."""

TOKEN_S = 100e-6
"""Seconds of a token beside its layers, mostly in Python. Measured: 60 to 100 µs."""


@dataclass(frozen=True)
class Roofline:
    """The memory traffic of decoding one token, in bytes.

    `weight_bytes` are read once for each decoded token, `kv_bytes` (the keys and values of one token in all layers with
    a window, by window; None sees all tokens) once for each token that these layers see. `matrix_bytes` are the bytes
    of the multiplied weights, by their format. Of experts, both count those that one token uses. `expert_bytes` are the
    bytes of all experts of all layers, by their number in a layer and the number of them that a token uses.
    `state_bytes` are those of the states of recurrent layers: a token reads the state before it, and writes its own.
    """

    weight_bytes: int
    kv_bytes: Mapping[int | None, int]
    matrix_bytes: Mapping[str, int]
    expert_bytes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    state_bytes: int = 0

    @classmethod
    def of(cls, model: Description, kv_type: str) -> "Roofline":
        """The traffic of a model: all tensors of the layers and the output head, and one row of each embedding.

        If the embedding is also the output head, all of it is read. Of experts those are read that a token uses. Of a
        head that drafts the projection of its pairs counts, but no encoder of features, which only the first of some
        drafts needs.
        """
        per_layer = model.per_layer_embeddings
        projections = [model.streams, model.entry, *([per_layer.projection, per_layer.norm] if per_layer else [])]
        used = {id(t): t for t in tensors_in([model.layers, model.output_norm, model.output, projections])}
        tables = [model.embedding, *([per_layer.table] if per_layer else [])]
        row = sum(table.type.row_bytes(table.shape[1]) for table in tables if id(table) not in used)
        matrix_bytes = Counter[str]()
        for linear in parts_in([model.layers, model.output, projections], Linear):
            matrix_bytes[linear.weight.type.name] += linear.weight.nbytes
        expert_bytes, unused = Counter[tuple[int, int]](), 0
        for block in parts_in(model.layers, MixtureOfExperts):
            for stack in block.stacks:
                matrix_bytes[stack.weight.type.name] += stack.first_matrix.nbytes * block.router.used
            expert_bytes[block.router.experts, block.router.used] += block.expert_bytes
            unused += block.expert_bytes - block.used_bytes
        weight_bytes = sum(tensor.nbytes for tensor in used.values()) + row - unused
        return cls(weight_bytes, _kv_bytes(model, kv_type), matrix_bytes, expert_bytes, model.state_bytes)

    @classmethod
    def of_cpu(cls, model: Description, kv_type: str, placement: Placement) -> "Roofline":
        """The traffic of the blocks that a placement puts on the CPU, and of the embedding."""
        layers = (
            replace(
                layer,
                attention=None if placement[mixer(i)] == GPU else layer.attention,
                feed_forward=None if placement[feed_forward(i)] == GPU else layer.feed_forward,
            )
            for i, layer in enumerate(model.layers)
        )
        found, head = cls.of(replace(model, layers=tuple(layers)), kv_type), model.output.weight
        if placement[-1] != GPU:
            return found
        matrices = Counter(found.matrix_bytes) - Counter({head.type.name: head.nbytes})
        return replace(found, weight_bytes=found.weight_bytes - head.nbytes, matrix_bytes=matrices)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of the keys and values that a token reads for each token that all layers see."""
        return sum(self.kv_bytes.values())

    def step_weight_bytes(self, rows: int) -> float:
        """Bytes of weights read for a step of some rows, to be expected if each chooses its experts independently."""
        more = 0.0
        for (count, used), nbytes in self.expert_bytes.items():
            more += nbytes * (distinct_experts(count, used, rows) - used) / count
        return self.weight_bytes + more

    def bytes_per_token(self, depth: float) -> float:
        """Bytes read to decode one token after `depth` tokens, and those of its states that are written."""
        return self.weight_bytes + self.sequence_bytes(depth + 1)

    def sequence_bytes(self, tokens: float) -> float:
        """Bytes that a token reads and writes of its own sequence, in which it sees `tokens` tokens with itself."""
        return self.kv_bytes_read(tokens) + 2 * self.state_bytes

    def kv_bytes_read(self, tokens: float) -> float:
        """Bytes of keys and values read by a token that sees `tokens` tokens, itself among them."""
        seen = {window: tokens if window is None else min(tokens, window) for window in self.kv_bytes}
        return sum(nbytes * seen[window] for window, nbytes in self.kv_bytes.items())

    @property
    def profile_names(self) -> list[str]:
        """The names of the speeds (see `edgellm.perf.machine_profile`) that `decode_tps` needs."""
        return [MEMORY, *self.matrix_bytes]

    def matmul_bandwidth(self, speeds: Mapping[str, float]) -> float | None:
        """Bytes of these weights, over all formats, that are multiplied per second; None if a speed is unknown."""
        if not self.matrix_bytes.keys() <= speeds.keys():
            return None
        seconds = sum(nbytes / speeds[name] for name, nbytes in self.matrix_bytes.items())
        return sum(self.matrix_bytes.values()) / seconds


def distinct_experts(count: int, used: int, rows: int) -> float:
    """The number of different experts to be expected of some rows, each of which uses `used` of `count` at random."""
    return count * (1 - (1 - used / count) ** rows)


def _kv_bytes(model: Description, kv_type: str) -> Mapping[int | None, int]:
    """Bytes of the keys and values of a token that layers read, by window; shared ones count for each layer."""
    found = Counter[int | None]()
    for own in (layer.attention for layer in model.layers if layer.attention):
        found[own.window] += layer_page_bytes(own.kv_heads, own.key_dim, own.stored_value_dim, kv_type) // PAGE
    return found


def decode_tps(
    roofline: Roofline, layers: int, speeds: Mapping[str, float], threads: int, depth: float = 0
) -> float | None:
    """The tokens per second to expect after `depth` tokens; None if a speed is unknown.

    Reading weights and the KV cache overlaps with multiplying them: the slower of the two decides and hides most of the
    other. The exponent 2.5 with which the two times are added is a fit. Measured tokens per second divided by the
    expected ones, with speeds of the same hour, one thread and two:

    - measured on Zen 4 with AVX2 alone, where arithmetic decides: 1.05 (Q4_K_M) to 1.15 (Q8_0, two threads)
    - measured on Zen 5, with a memory of 42 to 81 GB/s: 0.91 to 1.04
    - measured on Granite Rapids, 18 to 36 GB/s: 0.97 to 1.0

    (On the last two, the matmul bandwidth of two threads was taken as twice that of one.)
    """
    memory, matmul = speeds.get(MEMORY), roofline.matmul_bandwidth(speeds)
    if memory is None or matmul is None:
        return None
    nbytes = roofline.bytes_per_token(depth)
    seconds: float = ((nbytes / memory) ** 2.5 + (nbytes / matmul) ** 2.5) ** (1 / 2.5)
    return 1 / (seconds + layers * (LAYER_S if threads > 1 else LAYER_ONE_THREAD_S) + TOKEN_S)


def relative_cost(
    draft: tuple[Roofline, int], target: tuple[Roofline, int], speeds: Mapping[str, float], threads: int
) -> float:
    """The time of a token of a draft model relative to one of its target, each given with the number of its layers.

    It follows from the speeds of this machine, or if some are unknown from the bytes of the weights that are read.
    """
    own, other = (decode_tps(*each, speeds, threads) for each in (draft, target))
    return other / own if own and other else draft[0].weight_bytes / target[0].weight_bytes
