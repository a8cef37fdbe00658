"""What an answer of an S3 server that is not a success is to the job."""

from .answers import About, about
from .protocol import JobFailed, StoreUnreachable, TryAgain


def refusal(status: int, code: str) -> JobFailed:
    """The error for an answer that is not a success."""
    answer = f"{status} {code}".strip()
    match about(status, code):
        case About.NO_ROOM:
            return StoreUnreachable(f"the archive store is full ({answer})")
        case About.BUCKET:
            return StoreUnreachable(f"the bucket is not there, or not served here ({answer})")
        case About.CREDENTIALS:
            return StoreUnreachable(f"the archive store refuses our credentials ({answer})")
        case About.KEYS:
            return StoreUnreachable(f"the archive store cannot use the key of its encryption ({answer})")
        case About.HEALTH:
            return StoreUnreachable(f"the archive store is not well: it answers {answer}")
        case About.ABSENT:
            return TryAgain(f"an object vanished from the archive store ({answer})")
        case About.EXPIRED:
            return TryAgain(f"the archive store no longer serves the archive ({answer})")
        case About.REQUEST:
            return TryAgain(f"the archive store refused the archive ({answer})")
