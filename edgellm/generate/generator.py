"""What every request of an open model needs: the session, the tokenizer, the file's own sampling defaults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.generate.decoding import Prompt
from edgellm.generate.generation import Generation
from edgellm.generate.prefix_cache import Branches
from edgellm.generate.session import PrefillProgress, Session
from edgellm.generate.timing import Meter
from edgellm.options import GenerationOptions
from edgellm.perf.mbu import Gauge
from edgellm.text.tokenizer import Tokenizer


@dataclass
class Writer:
    """Starts generations; `gauge` is None where the engine is not ours."""

    session: Session
    tokenizer: Tokenizer
    defaults: Mapping[str, object]
    gauge: Gauge | None

    def options(self, **given: Any) -> GenerationOptions:
        """Generation options: what is given, over what the file says, over edgellm's defaults. OptionError."""
        return GenerationOptions.from_kwargs(self.defaults, **given)

    def meter(self) -> Meter:
        """The clock of a request that begins now. Raises EdgeLLMError if the model was closed."""
        self.session.check_open()
        engine = self.session.engine
        return Meter(lambda: engine.devices, gauge=self.gauge)

    def start(
        self,
        prompt: Prompt,
        options: GenerationOptions,
        meter: Meter,
        branches: Branches,
        progress: PrefillProgress | None = None,
        on_end: Callable[[str], None] = lambda text: None,
    ) -> Generation:
        """Continue a prompt, reusing what `branches` hold of them; `on_end` as in `Generation`.

        Raises ContextOverflowError, OptionError and EdgeLLMError before anything is computed.
        """
        return Generation(self.session, self.tokenizer, branches.lease, prompt, options, meter, progress, on_end)
