"""What an answer of an S3 server means to us, by its status and its error code.

Only an answer about the very object says something about it. Everything that concerns the whole store (credentials, the
bucket, the server's health) is an outage: waited for and reported, never held against a workspace.
"""

from codehub.drivers.archive_store.objects import Absent, Expired
from codehub.errors import ActionFailed, DriverError, Unreachable

_CREDENTIALS = (
    "Check S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY; reading, writing, deleting and listing must be allowed."
)


def meaning(status: int, code: str, *, bucket: str, path: str, said: str) -> DriverError:
    """The error for an answer that is not a success; `said` is the whole of it, for people."""
    answer = f"{status} {code}".strip()
    if code == "NoSuchBucket":
        return Unreachable(f"The archive store has no bucket {bucket}.", "Make it, or correct ARCHIVE_URL.")
    if code == "InvalidObjectState":
        return Expired(path)
    if status == 404:
        return Absent(f"The archive store has no {path}.")
    if status in (401, 403):
        return Unreachable(f"The archive store refuses our credentials ({answer}).", _CREDENTIALS)
    if status == 429 or status >= 500:
        return Unreachable(f"The archive store is not well: it answers {answer}.")
    return ActionFailed(f"The archive store refused the request: {said}")
