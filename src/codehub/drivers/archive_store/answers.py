"""What an answer of an S3 server means to us; what it is about says the storage job's table, which both go by."""

from codehub.drivers.archive_store.objects import Absent, Expired
from codehub.errors import ActionFailed, DriverError, Unreachable
from codehub.storage_job.answers import About, about

_CREDENTIALS = (
    "Check S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY; reading, writing, deleting and listing must be allowed."
)


def meaning(status: int, code: str, *, bucket: str, path: str, said: str) -> DriverError:
    """The error for an answer that is not a success; `said` is the whole of it, for people."""
    answer = f"{status} {code}".strip()
    match about(status, code):
        case About.NO_ROOM:
            return Unreachable(f"The archive store is full ({answer}).", "Make room, or raise its quota.")
        case About.BUCKET if code == "NoSuchBucket":
            return Unreachable(f"The archive store has no bucket {bucket}.", "Make it, or correct ARCHIVE_URL.")
        case About.BUCKET:
            return Unreachable(
                f"The archive store does not serve the bucket {bucket} here ({answer}).",
                "Check ARCHIVE_URL, S3_ENDPOINT and S3_REGION.",
            )
        case About.CREDENTIALS:
            return Unreachable(f"The archive store refuses our credentials ({answer}).", _CREDENTIALS)
        case About.KEYS:
            return Unreachable(
                f"The archive store cannot use the key that the bucket {bucket} is encrypted with ({answer}).",
                "Check the key in the key management service, and that our credentials may use it.",
            )
        case About.HEALTH:
            return Unreachable(f"The archive store is not well: it answers {answer}.")
        case About.ABSENT:
            return Absent(f"The archive store has no {path}.")
        case About.EXPIRED:
            return Expired(path)
        case About.REQUEST:
            return ActionFailed(f"The archive store refused the request: {said}")
