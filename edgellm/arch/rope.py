"""RoPE frequencies, from the metadata of a GGUF file."""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.positions import Rope, RopeType
from edgellm.arch.refuse import refuse
from edgellm.arch.tensors import Tensors
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile

Frequencies = NDArray[np.float64]

FACTOR_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""The tensors with divisors of frequencies."""


class _Choice(NamedTuple):
    dims: int
    base: float | None
    scaled: bool
    magnitude: float | None
    rope_type: RopeType


class RopeReader:
    """Reads the RoPE of a file; a model may have several, with other bases. Equal choices give the same object.

    `yarn_truncate` is for files without that key, see `_kept_by_yarn`.
    """

    def __init__(self, file: GGUFFile, rope_type: RopeType, yarn_truncate: bool = True) -> None:
        self._file, self._rope_type, self._prefix = file, rope_type, f"{file.architecture}.rope"
        self._yarn_truncate = yarn_truncate
        self._made: dict[_Choice, Rope] = {}

    @cached_property
    def original_context(self) -> int:
        """The context that the model was trained for before its RoPE was scaled."""
        key = f"{self._prefix}.scaling.original_context_length"
        original = self._file.get_int(key, self._file.get_int(f"{self._file.architecture}.context_length"))
        if original < 1:
            self._file.fail(f"key {key} is {original}, below 1; get another conversion of the model")
        return original

    def read(
        self,
        dims: int,
        *,
        base: float | None = None,
        scaled: bool = True,
        magnitude: float | None = None,
        rope_type: RopeType | None = None,
    ) -> Rope:
        """RoPE over the first `dims` dimensions of each head, with `rope.freq_base` or another base.

        Plain frequencies are base^(-2i / dims) (RoFormer, arXiv 2104.09864). With `scaled` they are divided by the
        tensor `rope_freqs.weight`, which holds Llama 3's scaling, or by `rope_factors_short.weight` and, in longer
        contexts, `rope_factors_long.weight` (LongRoPE, arXiv 2402.13753). Linear scaling divides all frequencies by a
        factor; YaRN divides low frequencies only. `magnitude` replaces that of YaRN, `rope_type` that of the
        architecture. Raises ModelFileError and UnsupportedModelError.
        """
        choice = _Choice(dims, base, scaled, magnitude, rope_type or self._rope_type)
        if choice not in self._made:
            self._made[choice] = self._read(choice)
        return self._made[choice]

    def _read(self, choice: _Choice) -> Rope:
        file, dims = self._file, choice.dims
        base = number(file, f"{self._prefix}.freq_base", 10000.0) if choice.base is None else choice.base
        if dims < 2 or dims % 2 or not base > 1.0:
            file.fail(f"rope over {dims} dimensions with base {base} is impossible; get another conversion")
        plain = base ** (-np.arange(0, dims, 2) / dims)
        if not choice.scaled:
            return Rope(plain, 1.0, choice.rope_type)
        if "rope_factors_long.weight" in file.tensors:
            return self._long_rope(plain, choice.rope_type)
        return self._scaled(plain / _factors(file, "rope_freqs.weight", dims // 2), base, choice)

    def _scaled(self, frequencies: Frequencies, base: float, choice: _Choice) -> Rope:
        file, prefix, rope_type = self._file, f"{self._prefix}.scaling", choice.rope_type
        magnitude = number(file, f"{prefix}.attn_factor", 1.0)
        # A factor without a type means linear; old files have one key for that alone. 0 stands for "no scaling".
        kind = file.get_str(f"{prefix}.type", "linear")
        old = number(file, f"{self._prefix}.scale_linear", 1.0, off=0.0)
        factor = number(file, f"{prefix}.factor", old, off=0.0) or 1.0
        if kind == "yarn":
            kept = self._kept_by_yarn(base, choice.dims)
            own = self._yarn_magnitude(factor) if choice.magnitude is None else choice.magnitude
            return Rope(frequencies * (kept + (1 - kept) / factor), magnitude * own, rope_type)
        if kind == "linear":
            return Rope(frequencies / factor, magnitude, rope_type)
        if kind == "longrope":
            file.fail("has no tensor rope_factors_long.weight, which LongRoPE needs; get another conversion")
        if kind != "none":
            refuse(file, f"rope scaling {printable(kind)} is not supported, only none, linear, yarn and longrope are")
        return Rope(frequencies, magnitude, rope_type)

    def _long_rope(self, plain: Frequencies, rope_type: RopeType) -> Rope:
        file, pairs = self._file, len(plain)
        magnitude = number(file, f"{self._prefix}.scaling.attn_factor", 1.0)
        if "rope_factors_short.weight" not in file.tensors:
            file.fail("has no tensor rope_factors_short.weight beside that of long ones; get another conversion")
        long, short = (_factors(file, f"rope_factors_{name}.weight", pairs) for name in ("long", "short"))
        in_long = Rope(plain / long, magnitude, rope_type)
        return Rope(plain / short, magnitude, rope_type, in_long, self.original_context)

    def _yarn_magnitude(self, factor: float) -> float:
        """YaRN's factor on cosine and sine, to be multiplied by `rope.scaling.attn_factor`.

        llama.cpp's converter writes that of config.json to `yarn_attn_factor`, which llama.cpp 0.3.36 does not read.
        """
        prefix = f"{self._prefix}.scaling"
        usual = 1.0 + 0.1 * math.log(factor) if factor > 1 else 1.0
        if f"{prefix}.attn_factor" in self._file.metadata:
            return usual
        return number(self._file, f"{prefix}.yarn_attn_factor", usual)

    def _kept_by_yarn(self, base: float, dims: int) -> Frequencies:
        """How much of each frequency YaRN keeps, 1 … 0 (arXiv 2309.00071, section 3.2).

        Pairs that make more than `beta_fast` turns within the original context keep their frequency; that of pairs with
        fewer than `beta_slow` turns is divided by the factor; between these limits is a linear ramp. A file may set
        both. llama.cpp 0.3.36 always takes 32 and 1 for some architectures, so its logits then differ.

        With `yarn_truncate` the ramp begins and ends at whole pairs, the last before it and the first behind it. The
        key is edgellm's own, named like `truncate` in transformers: GGUF has none, and llama.cpp always truncates.
        """
        prefix = f"{self._prefix}.scaling"
        fast = number(self._file, f"{prefix}.yarn_beta_fast", 32.0)
        slow = number(self._file, f"{prefix}.yarn_beta_slow", 1.0)

        def pair(turns: float) -> float:
            return dims * math.log(self.original_context / (turns * 2 * math.pi)) / (2 * math.log(base))

        first, last = pair(fast), pair(slow)
        if self._file.get_bool(f"{prefix}.yarn_truncate", self._yarn_truncate):
            first, last = math.floor(first), math.ceil(last)
        # As floats: with a base close to 1 they are beyond the integers of NumPy.
        low, high = float(max(0, first)), float(min(dims - 1, last))
        kept: Frequencies = 1 - np.clip((np.arange(dims // 2) - low) / max(0.001, high - low), 0, 1)
        return kept


def number(file: GGUFFile, key: str, default: float, off: float | None = None) -> float:
    """The number at a key, which must be within 1e-9 … 1e15, or `off`. Raises ModelFileError."""
    value = file.get_float(key, default)
    if value != off and not 1e-9 <= value <= 1e15:
        file.fail(f"key {key} is {value}, outside 1e-9 … 1e15; get another conversion of the model")
    return value


def _factors(file: GGUFFile, name: str, pairs: int) -> Frequencies | float:
    if name not in file.tensors:
        return 1.0
    factors = Tensors(file).floats(name, (pairs,)).data.view(np.float32).astype(np.float64)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        file.fail(f"tensor {name} has values that are not positive; get another conversion")
    return factors
