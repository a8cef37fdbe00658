"""Logs: one line per event, as key-values; text on a terminal, JSON elsewhere.

Everything that logs through the standard library (uvicorn, alembic, psycopg) comes out in the same form. Values under
names that sound like secrets are masked, whoever logs them.
"""

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from codehub.config import LogConfig

_SECRET = re.compile(r"password|secret|token|authorization|cookie", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):(\S+)@")  # to the last @, whatever the password holds


def configure(config: LogConfig, stream: TextIO = sys.stderr) -> None:
    """Send every log of this process to `stream`."""
    as_json = config.format == "json" or (config.format == "auto" and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,  # as text, before masking: other formats would print local variables
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=0)
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, mask_secrets, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(config.level.upper())
    for chatty in ("alembic", "httpx", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The event with everything that may be a secret replaced by ***."""
    return {key: _masked(key, value) for key, value in event.items()}


def _masked(key: str, value: object) -> object:
    if _SECRET.search(key):
        return "***"
    match value:
        case str() if "://" in value:
            return _URL_PASSWORD.sub(r"\1:***@", value)
        case dict():
            return {name: _masked(str(name), each) for name, each in value.items()}
        case list() | tuple():
            return [_masked("", each) for each in value]
        case _:
            return value
