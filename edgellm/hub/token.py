"""The user's token for a hub."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable


def user_token() -> str | None:
    """The token that `huggingface_hub` finds: that of HF_TOKEN, or of `hf auth login`.

    Raises EdgeLLMError where the library cannot be loaded in this environment, or the token is none.
    """
    try:
        from huggingface_hub import get_token
    except ValueError as error:  # it reads numbers from the environment when it is imported
        said = printable(" ".join(str(error).split()), 200)
        raise EdgeLLMError(f"a variable that begins with HF_ has an impossible value ({said}); correct it") from error
    token = get_token()
    if token and not (token.isascii() and token.isprintable()):
        raise EdgeLLMError("the token has characters that no token has; check HF_TOKEN, or `hf auth login` again")
    return token
