"""The user's access token for a hub."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable


def user_token() -> str | None:
    """The token that `huggingface_hub` finds: in HF_TOKEN, or from `hf auth login`.

    Raises EdgeLLMError if an HF_ variable has an invalid value, or the token has invalid characters.
    """
    try:
        from huggingface_hub import get_token
    except ValueError as error:  # the library reads numbers from the environment when it is imported
        detail = printable(" ".join(str(error).split()), 200)
        raise EdgeLLMError(f"a variable that begins with HF_ has an impossible value ({detail}); correct it") from error
    token = get_token()
    if token and not (token.isascii() and token.isprintable()):
        raise EdgeLLMError("the token has characters that no token has; check HF_TOKEN, or `hf auth login` again")
    return token
