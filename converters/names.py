"""The names of tensors: Hugging Face's as GGUF's, by the tables of the `gguf` package."""

from collections.abc import Callable


def name_map(architecture: str, layers: int) -> Callable[[str], str | None]:
    """A function from a Hugging Face name to the GGUF name in an architecture, or None where it has no such tensor."""
    import gguf

    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    table = gguf.get_tensor_name_map(number, layers)

    def translate(name: str) -> str | None:
        found: str | None = table.get_name(name, try_suffixes=(".weight", ".bias"))
        return found

    return translate
