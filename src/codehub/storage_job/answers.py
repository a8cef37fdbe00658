"""What an answer of an S3 server is about, by its HTTP status and S3's error code, never by the words around them.

The one table for the job and for the archive store. An answer that concerns the whole store (no room, a quota,
credentials, the bucket, the server's health) is an outage: waited for and reported, never held against a workspace.
Only an answer about this very request is that workspace's failure.
"""

import re
from enum import Enum, auto

_STATUS = re.compile(r"status code: ([0-9]{3})\b")  # as obstore says it, before the body
_CODE = re.compile(r"<Code>([A-Za-z0-9.]+)</Code>")


class About(Enum):
    """What an answer speaks of."""

    NO_ROOM = auto()  # the store, or our share of it, is full
    BUCKET = auto()  # it is not there, or not here
    CREDENTIALS = auto()
    KEYS = auto()  # the key service that the bucket is encrypted with does not let us
    HEALTH = auto()  # the server cannot now, or the request did not reach it whole
    ABSENT = auto()  # there is no such object
    EXPIRED = auto()  # the object is there and not served
    REQUEST = auto()  # this request makes no sense to the store: too large, too many parts, invalid


OUTAGES = frozenset({About.NO_ROOM, About.BUCKET, About.CREDENTIALS, About.KEYS, About.HEALTH})

_KEYS = "KMS."  # KMS.DisabledException, KMS.NotFoundException, …: the same for every archive of the bucket

# Codes that mean the same whatever the status beside them; servers disagree about that.
_BY_CODE = {
    **dict.fromkeys(
        (
            "InsufficientStorage",
            "InsufficientStorageSpace",
            "QuotaExceeded",
            "StorageQuotaExceeded",
            "XMinioAdminBucketQuotaExceeded",
            "XMinioStorageFull",
        ),
        About.NO_ROOM,
    ),
    **dict.fromkeys(
        (
            "AuthorizationHeaderMalformed",  # also another region's
            "IllegalLocationConstraintException",
            "InvalidBucketName",
            "InvalidBucketState",
            "NoSuchBucket",
            "PermanentRedirect",
            "TemporaryRedirect",
        ),
        About.BUCKET,
    ),
    **dict.fromkeys(("ExpiredToken", "InvalidToken", "TokenRefreshRequired"), About.CREDENTIALS),
    **dict.fromkeys(
        (
            "BadDigest",  # damaged on its way
            "IncompleteBody",
            "InternalError",
            "OperationAborted",  # something else is being done to the bucket
            "RequestTimeout",
            "ServiceUnavailable",
            "SlowDown",
            "XAmzContentSHA256Mismatch",
        ),
        About.HEALTH,
    ),
    "InvalidObjectState": About.EXPIRED,
}


def about(status: int, code: str) -> About:
    """What an answer that is not a success speaks of. A 2xx with an error's code is one, too."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code.startswith(_KEYS):
        return About.KEYS
    match status:
        case 401 | 403:
            return About.CREDENTIALS
        case 404:
            return About.ABSENT
        case 507:
            return About.NO_ROOM
        case 408 | 429:
            return About.HEALTH
        case _ if status >= 500:
            return About.HEALTH
        case _ if 300 <= status < 400:
            return About.BUCKET
    return About.REQUEST


def answer_in(text: str) -> tuple[int, str] | None:
    """Status and code of the answer that a message of obstore tells of; None when nobody answered."""
    status = _STATUS.search(text)
    if status is None:
        return None
    return int(status[1]), code_in(text)


def code_in(text: str) -> str:
    """S3's error code in a body; empty where it has none."""
    code = _CODE.search(text)
    return code[1] if code else ""
