"""The ops that begin a head: from a token and a row of features to x, and to what its first layer reads.

Features are in the buffers before the ops run: behind the embedding in the pair, and where x begins as features also in
x. Both halves of the pair are then normed as two heads of a row would be.
"""

from collections.abc import Sequence

from edgellm.arch.blocks import Linear
from edgellm.arch.description import Description
from edgellm.arch.head import PairEntry
from edgellm.engine.activations import MatmulInput
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer, FeaturePlace, Program


class EntryOps:
    """Appends the ops of a head's entry to a program. `pair` is [embedding | features], each of `feature_width`."""

    def __init__(self, model: Description, entry: PairEntry, x: Buffer, ops: OpWriter) -> None:
        self._model, self._entry, self._x, self._ops = model, entry, x, ops
        self._norms = NormOps(ops)
        self.pair = MatmulInput.named("pair", 2 * model.feature_width)

    def write(self, program: Program) -> None:
        """x and the normed pair."""
        width, entry, ops = self._model.feature_width, self._entry, self._ops
        program.features.append(FeaturePlace(self.pair.f32, width, width))
        ops.embed(self._model.embedding, self.pair.f32, self._model.embedding_scale, own_embeddings=False)
        if entry.norms:
            self._norms.norm_heads(self.pair.f32, entry.norms, 2, width)
        if entry.projection:
            ops.quantize(self.pair, [entry.projection])
            ops.linear(self.pair, (entry.projection, self._x))
            return
        program.features.append(FeaturePlace(self._x, 0, width))
        if entry.normed_residual:
            self._norms.norm_in_place(self._x, entry.feature_norm, width)

    def is_read_by(self, layer: int) -> bool:
        """Whether the mixer of a layer reads the pair in place of x."""
        return layer == 0 and self._entry.projection is None

    def input(self, projections: Sequence[Linear]) -> MatmulInput:
        """What these projections of the first layer read."""
        self._ops.quantize(self.pair, projections)
        return self.pair
