"""CodeHub from a program: a typed client of the API (ADR 7). The command line and the tests speak through it.

    with Client("https://codehub.example.com", token="…") as client:
        workspace = client.create_workspace("demo")
        for event in client.events():
            …

It knows the API by its contract alone and imports nothing of CodeHub's but its errors. Every call has a time limit;
whatever goes wrong is one exception, `ApiError`.
"""

from codehub.client.client import Client
from codehub.client.errors import ApiError
from codehub.client.events import Event, EventKind, Events
from codehub.client.models import (
    AuditEntry,
    ErrorState,
    GcRun,
    HistoryEntry,
    Images,
    Limits,
    Logs,
    NewToken,
    Page,
    Session,
    Token,
    Usage,
    User,
    Workspace,
)

__all__ = [
    "ApiError",
    "AuditEntry",
    "Client",
    "ErrorState",
    "Event",
    "EventKind",
    "Events",
    "GcRun",
    "HistoryEntry",
    "Images",
    "Limits",
    "Logs",
    "NewToken",
    "Page",
    "Session",
    "Token",
    "Usage",
    "User",
    "Workspace",
]
