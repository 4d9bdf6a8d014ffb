"""What the error statuses of a hub mean for a user: one line each."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.hub.http import HTTPResponse
from edgellm.system.http import retry_after_seconds


def response_error(response: HTTPResponse, what: str, repository: str, endpoint: str, has_token: bool) -> EdgeLLMError:
    """The error for a request for `what` to which the hub at `endpoint` responded with an error status.

    huggingface.co distinguishes errors of one status by the header `X-Error-Code`.
    """
    status, name, code = response.status, printable(what), response.headers.get("x-error-code")
    if code == "GatedRepo":
        return EdgeLLMError(_gated(repository, f"{endpoint}/{repository}", has_token))
    if code == "RevisionNotFound":
        return EdgeLLMError(f"{name}: has no branch main on {endpoint}; choose another repository")
    if status in (401, 403, 404):
        return EdgeLLMError(_hidden(name, status, endpoint, has_token))
    if status == 429:
        seconds = retry_after_seconds(response.headers)
        when = f"in {seconds:.0f} seconds" if seconds else "later"
        login = "" if has_token else "; with a token (HF_TOKEN) the hub allows more"
        return EdgeLLMError(f"{name}: {endpoint} has had too many requests from here (429); try again {when}{login}")
    if status < 400:
        return EdgeLLMError(f"{name}: {endpoint} redirects to an invalid address ({status}); try again later")
    detail = response.headers.get("x-error-message") or response.reason
    return EdgeLLMError(f"{name}: {endpoint} answers {status} ({printable(detail)}); try again later")


def _gated(repository: str, page: str, has_token: bool) -> str:
    if has_token:
        return f"{repository} is gated, and your token has no access to it; ask for access at {page}, then try again"
    return f"{repository} is gated: ask for access at {page}, then give a token with HF_TOKEN or `hf auth login`"


def _hidden(name: str, status: int, endpoint: str, has_token: bool) -> str:
    if status == 404:
        return f"{name} does not exist on {endpoint} (404); check the name"
    if status == 403:
        return f"{name}: {endpoint} refuses it (403); check what your token (HF_TOKEN) may read"
    if has_token:
        return f"{name}: is not on {endpoint}, or your token is not valid there (401); check the name and HF_TOKEN"
    return f"{name}: is not on {endpoint}, or is private (401); check the name, or give a token with HF_TOKEN"
