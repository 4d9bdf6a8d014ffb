"""The child process that holds llama.cpp."""

from edgellm.errors import EdgeLLMError
from edgellm.process import child


class Child(child.Child):
    """A process of its own for llama.cpp. `name` is the model's, for messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__("edgellm.llamacpp.worker")

    def epitaph(self, how: str) -> EdgeLLMError:
        """See `edgellm.process.child.Child`."""
        said = self.last_words()
        return EdgeLLMError(
            f"{self.name}: llama.cpp {how}{f' ({said})' if said else ''}; open the model again, or leave --engine out"
        )
