"""The keys of an architecture in a GGUF file, collected in the order in which they are written."""

from collections.abc import Iterable

from converters.tensors import MetadataValue


class ArchitectureKeys:
    """Metadata whose keys have the architecture's prefix, such as `llama.block_count`; keys are given without it.

    Setting a key again replaces its value and keeps its place, as in `gguf.GGUFWriter`.
    """

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture
        self.metadata: dict[str, MetadataValue] = {}

    def __contains__(self, name: str) -> bool:
        return f"{self._architecture}.{name}" in self.metadata

    def integer(self, name: str, value: int) -> None:
        """Set an unsigned integer of 32 bits."""
        self._set(name, "u32", value)

    def number(self, name: str, value: float) -> None:
        """Set a float32."""
        self._set(name, "f32", value)

    def flag(self, name: str, value: bool) -> None:
        """Set a truth value."""
        self._set(name, "bool", value)

    def word(self, name: str, value: str) -> None:
        """Set a text."""
        self._set(name, "str", value)

    def integers(self, name: str, values: Iterable[int]) -> None:
        """Set an array of signed integers of 32 bits, such as one for each layer."""
        self._set(name, "i32", list(values))

    def numbers(self, name: str, values: Iterable[float]) -> None:
        """Set an array of float32."""
        self._set(name, "f32", list(values))

    def flags(self, name: str, values: Iterable[bool]) -> None:
        """Set an array of truth values."""
        self._set(name, "bool", list(values))

    def plain(self, key: str, value: MetadataValue) -> None:
        """Set a key without the architecture's prefix."""
        self.metadata[key] = value

    def _set(self, name: str, kind: str, value: object) -> None:
        self.metadata[f"{self._architecture}.{name}"] = MetadataValue(kind, value)
