"""The call formats of families of models, one small module each, found from a chat template."""

from edgellm.tools.call_format import CallFormat
from edgellm.tools.formats.command_r import COMMAND_R
from edgellm.tools.formats.deepseek import DEEPSEEK, DEEPSEEK_NEWER
from edgellm.tools.formats.functionary import FUNCTIONARY, FUNCTIONARY_TAGGED
from edgellm.tools.formats.gemma4 import GEMMA4
from edgellm.tools.formats.glm import GLM, GLM_NEWER
from edgellm.tools.formats.granite import GRANITE
from edgellm.tools.formats.harmony import HARMONY_CALLS
from edgellm.tools.formats.hermes import HERMES
from edgellm.tools.formats.lfm2 import LFM2
from edgellm.tools.formats.llama3 import LLAMA3
from edgellm.tools.formats.mistral import MISTRAL, MISTRAL_NEWER
from edgellm.tools.formats.qwen3_coder import QWEN3_CODER

FORMATS = (
    HARMONY_CALLS,
    GEMMA4,
    DEEPSEEK,
    DEEPSEEK_NEWER,
    GLM,
    GLM_NEWER,
    QWEN3_CODER,
    FUNCTIONARY,
    FUNCTIONARY_TAGGED,
    LFM2,
    COMMAND_R,
    GRANITE,
    MISTRAL,
    MISTRAL_NEWER,
    HERMES,
    LLAMA3,
)
"""All formats. The first one that a template shows is its format: those with more marks stand before others."""


def call_format(template: str) -> CallFormat | None:
    """The format that a chat template, by its source, shows; None for one that shows no calls."""
    return next((form for form in FORMATS if form.is_shown(template)), None)
