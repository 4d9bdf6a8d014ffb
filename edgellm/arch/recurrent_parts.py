"""What several kinds of recurrent mixers have: convolutions over time, and states that are matrices."""

from dataclasses import dataclass

from edgellm.gguf import Tensor
from kquants.layout import STATE_COLUMNS


@dataclass(frozen=True)
class Convolution:
    """A causal convolution of each channel over the last `taps` rows of a sequence.

    `weight` is float32 (channels, taps), the last tap that of the row itself; `bias` is float32 [channels].
    """

    weight: Tensor
    bias: Tensor | None = None

    @property
    def channels(self) -> int:
        """Values of a row."""
        return self.weight.shape[0]

    @property
    def taps(self) -> int:
        """Rows that a result depends on."""
        return self.weight.shape[1]

    @property
    def state_bytes(self) -> int:
        """Bytes of the state: the inputs of the last taps - 1 rows, each padded to a multiple of 16 values."""
        return (self.taps - 1) * 64 * -(-self.channels // 16)


def matrix_state_bytes(rows: int, columns: int) -> int:
    """Bytes of the state of a head, a float32 matrix whose columns are padded to a multiple of `STATE_COLUMNS`."""
    return 4 * rows * -(-columns // STATE_COLUMNS) * STATE_COLUMNS
