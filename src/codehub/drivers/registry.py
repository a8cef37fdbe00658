"""What it means that an image could not be fetched. Pure.

Nobody answered, or not well: an outage, waited for. The registry answered that there is no such image for us: a person
chooses another one. Anything else (a full disk, a certificate that nobody trusts) is tried again and counted.
"""

import re

from codehub.errors import ActionFailed, DriverError, TerminalError, Unreachable
from codehub.model.workspace import ErrorReason

_SILENT = re.compile(
    r"timeout|timed out|deadline exceeded|connection refused|connection reset|broken pipe|no such host|unexpected eof"
    r"|: eof\b|tls handshake|server misbehaving|temporary failure|unreachable|no route to host|too ?many ?requests"
    r"|(?:status(?: code)?:?(?: \S+)?|http|returned|error:) (?:429|5\d\d)\b"
    r"|\b5\d\d (?:internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time)"
)
_ABSENT = re.compile(
    r"manifest unknown|name unknown|name_unknown|manifest_unknown|not found|does not exist|access (?:is |was )?denied"
    r"|requested access|unauthorized|authentication required|insufficient_scope|403 forbidden|invalid reference"
    r"|invalidimagename|couldn't parse image|errimageneverpull|not present with pull policy|no matching manifest"
    r"|no match for platform|switched off"
)


def pull_failure(image: str, message: str) -> DriverError:
    """The error for what an engine or a node says about an image that it does not get."""
    said = message.lower().replace(image.lower(), "")  # whose name may hold any of these words
    if _SILENT.search(said):
        return Unreachable(f"The image {image} cannot be fetched now: {message.rstrip('.')}.")
    if _ABSENT.search(said):
        hint = "Choose another image, or see that the registry has it and lets us fetch it."
        return TerminalError(
            ErrorReason.IMAGE_PULL_FAILED, f"The image {image} cannot be had: {message.rstrip('.')}.", hint
        )
    return ActionFailed(f"The image {image} could not be fetched: {message.rstrip('.')}.")


def is_without_cause(message: str) -> bool:
    """Whether a node only says that it waits before it asks again; the cause was said before, or will be."""
    said = message.lower()
    return "back-off pulling image" in said and not (_SILENT.search(said) or "err" in said or _ABSENT.search(said))
