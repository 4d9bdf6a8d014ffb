"""What becomes of a model file of any content: it runs, or one clear error says why not."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from edgellm import EdgeLLMError, EdgeLLMWarning, Model


def runs(path: Path, ids: Sequence[int] = (3, 1, 2, 0, 3), *, talks: bool = True) -> bool:
    """Open, compute `ids`, write and, with `talks`, chat; False when a clear error in one line ended that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        try:
            with Model.open(path, threads=1) as model:
                model.logits(ids)
                model.generate("the time", max_tokens=3, seed=1)
                if talks and model.tokenizer.chat_template is not None:
                    model.chat().send("he", max_tokens=2, seed=1)
        except EdgeLLMError as error:
            assert str(error)
            assert "\n" not in str(error)
            return False
    return True


def peak_memory() -> float:
    """The most resident bytes this process ever had; 0 where that is unknown."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
