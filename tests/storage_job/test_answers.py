"""What each kind of answer of an S3 server means, to the storage job and to the archive store."""

import pytest

from codehub.drivers.archive_store.answers import meaning
from codehub.drivers.archive_store.objects import Absent, Expired
from codehub.errors import ActionFailed, Unreachable
from codehub.storage_job.answers import OUTAGES, About, about, answer_in
from codehub.storage_job.protocol import Exit
from codehub.storage_job.refusals import refusal

ANSWERS = [
    (507, "XMinioStorageFull", About.NO_ROOM),
    (507, "", About.NO_ROOM),
    (400, "XMinioAdminBucketQuotaExceeded", About.NO_ROOM),
    (403, "QuotaExceeded", About.NO_ROOM),
    (500, "InsufficientStorage", About.NO_ROOM),
    (503, "SlowDown", About.HEALTH),
    (500, "InternalError", About.HEALTH),
    (502, "", About.HEALTH),
    (200, "InternalError", About.HEALTH),
    (429, "TooManyRequests", About.HEALTH),
    (400, "RequestTimeout", About.HEALTH),
    (400, "BadDigest", About.HEALTH),
    (401, "Unauthorized", About.CREDENTIALS),
    (403, "AccessDenied", About.CREDENTIALS),
    (403, "SignatureDoesNotMatch", About.CREDENTIALS),
    (400, "ExpiredToken", About.CREDENTIALS),
    (400, "KMS.DisabledException", About.KEYS),
    (400, "KMS.NotFoundException", About.KEYS),
    (400, "KMS.KMSInvalidStateException", About.KEYS),
    (409, "OperationAborted", About.HEALTH),
    (409, "InvalidRequest", About.REQUEST),
    (404, "NoSuchBucket", About.BUCKET),
    (301, "PermanentRedirect", About.BUCKET),
    (307, "", About.BUCKET),
    (404, "NoSuchKey", About.ABSENT),
    (404, "NoSuchUpload", About.ABSENT),
    (403, "InvalidObjectState", About.EXPIRED),
    (400, "EntityTooLarge", About.REQUEST),
    (400, "EntityTooSmall", About.REQUEST),
    (400, "InvalidPart", About.REQUEST),
    (400, "InvalidRequest", About.REQUEST),
    (400, "InvalidArgument", About.REQUEST),
    (200, "InvalidPart", About.REQUEST),
    (412, "PreconditionFailed", About.REQUEST),
    (413, "", About.REQUEST),
]


@pytest.mark.parametrize(("status", "code", "what"), ANSWERS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_answer_is_about_one_thing(status: int, code: str, what: About) -> None:
    assert about(status, code) is what
    error = refusal(status, code)
    assert error.code is (Exit.UNREACHABLE if what in OUTAGES else Exit.RETRY)
    told = meaning(status, code, bucket="bucket", path="path", said="…")
    known: dict[About, type[Exception]] = {
        About.ABSENT: Absent, About.EXPIRED: Expired, About.REQUEST: ActionFailed
    }  # fmt: skip
    assert type(told) is known.get(what, Unreachable)


@pytest.mark.parametrize(("status", "code", "what"), ANSWERS, ids=lambda value: getattr(value, "name", str(value)))
def test_an_answer_is_read_out_of_what_obstore_says(status: int, code: str, what: About) -> None:
    body = f"<Error><Code>{code}</Code><Message>after 5 retries, kind: Timeout</Message></Error>" if code else ""
    text = (
        f"Generic S3 error: Error performing PUT http://s/bucket/x in 1ms, after 5 retries, max_retries: 5, "
        f"retry_timeout: 30s  - Server returned non-2xx status code: {status} Some Words: {body}\n\nDebug source: …"
    )
    assert answer_in(text) == (status, code)
    assert what is about(status, code)


def test_without_an_answer_there_is_none() -> None:
    assert answer_in("Generic S3 error: Error performing GET http://s/x - HTTP error: error sending request") is None
