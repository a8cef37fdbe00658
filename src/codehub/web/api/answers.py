"""How routes describe their errors in the OpenAPI: the one error shape, with an example for each status."""

from typing import Annotated, Any

from pydantic import BaseModel, Field


class ErrorDetail(BaseModel):
    """What is wrong."""

    code: Annotated[str, Field(description="Stable: for programs.", examples=["not_found"])]
    message: Annotated[str, Field(description="For people: what is wrong and what to do about it.")]
    details: Annotated[
        dict[str, Any] | None, Field(description="What a program may use, where there is something.")
    ] = None


class ErrorBody(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


_ERRORS: dict[int, tuple[str, dict[str, Any]]] = {
    400: ("The body is not JSON.", {"code": "bad_request", "message": "There was an error parsing the body."}),
    401: (
        "Nobody is logged in, or no longer.",
        {
            "code": "not_logged_in",
            "message": "You are not logged in. Log in, or send a token in the Authorization header.",
        },
    ),
    403: (
        "Not with this login: it is no administrator's, a token that may only read, or another site sent the request.",
        {"code": "read_only_token", "message": "This token may only read. Use one with the scope `write`."},
    ),
    404: (
        "There is no such thing, or it is somebody else's.",
        {"code": "not_found", "message": "There is no such workspace. Check its id; it may be somebody else's."},
    ),
    409: (
        "Not in the present state; perhaps later.",
        {
            "code": "conflict",
            "message": "STARTING is in progress. Try again when it has ended.",
            "details": {"phase": "STANDBY", "operation": "STARTING", "desired_state": "RUNNING"},
        },
    ),
    410: ("Not any more.", {"code": "gone", "message": "The workspace was purged: nothing of it was kept."}),
    412: (
        "It has changed since it was read (If-Match).",
        {
            "code": "outdated",
            "message": "The workspace has changed since you read it. Read it again, then repeat your change.",
        },
    ),
    413: ("The body is too large.", {"code": "content_too_large", "message": "The request is too large."}),
    422: (
        "Something that was given cannot be used.",
        {"code": "invalid", "message": "body.name: String should have at least 1 character."},
    ),
    429: (
        "Over a limit; `details.running` lists what the owner has running.",
        {
            "code": "over_limit",
            "message": "You have 2 running workspaces, the most you may have. Stop one first.",
            "details": {"running": [{"id": "0b1f…", "name": "thesis"}, {"id": "77aa…", "name": "course"}]},
        },
    ),
    503: (
        "Something that is needed does not answer; trying again may help.",
        {"code": "unavailable", "message": "The database did not answer in time. Try again in a moment."},
    ),
}

Responses = dict[int | str, dict[str, Any]]


def errors(*statuses: int) -> Responses:
    """For `responses=`."""
    return {status: _described(status) for status in statuses}


def _described(status: int) -> dict[str, Any]:
    description, example = _ERRORS[status]
    return {
        "model": ErrorBody,
        "description": description,
        "content": {"application/json": {"example": {"error": example}}},
    }


# What every route may answer.
COMMON = errors(400, 401, 403, 422, 503)
