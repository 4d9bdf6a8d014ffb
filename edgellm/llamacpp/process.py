"""The child process with llama.cpp, as the engine sees it."""

from edgellm.errors import EdgeLLMError
from edgellm.process.child import ChildProcess


class LlamaCppProcess(ChildProcess):
    """A process with llama.cpp; `name` is that of the model, for messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__("edgellm.llamacpp.worker")

    def ended_error(self, how: str) -> EdgeLLMError:
        """See `edgellm.process.child.ChildProcess`."""
        said = self.stderr_tail()
        return EdgeLLMError(
            f"{self.name}: llama.cpp {how}{f' ({said})' if said else ''}; open the model again, or leave --engine out"
        )
