"""Logs: one line per event, as key-values; text on a terminal, JSON elsewhere.

Everything that logs through the standard library (uvicorn, alembic, psycopg) comes out in the same form. Values under
names that sound like secrets are masked, whoever logs them.

`codehub up` logs to a file, whose size is bounded; its terminal is for people. Elsewhere logs go to standard error.
"""

import logging
import logging.handlers
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from codehub.config import LogConfig

_SECRET = re.compile(r"password|secret|token|authorization|cookie", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):(\S+)@")  # to the last @, whatever the password holds


FILE = "codehub.log"
FILE_BYTES = 10 << 20
FILES = 5  # the one that is written to, and earlier ones
_MOST_WAITING = 1000


def configure(config: LogConfig, stream: TextIO = sys.stderr) -> None:
    """Send every log of this process to `stream`."""
    _install(config, [_to_stream(config, stream)])


def configure_for_file(config: LogConfig, stream: TextIO = sys.stderr) -> None:
    """Keep every log until `open_file` says where to; a stream that is no terminal has it, too, at once."""
    waiting = logging.handlers.MemoryHandler(_MOST_WAITING, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
    _install(config, [waiting, *([] if stream.isatty() else [_to_stream(config, stream)])])


def open_file(config: LogConfig, path: Path) -> None:
    """Write to this file what was logged since `configure_for_file`, and what comes. Raises OSError."""
    file = _BoundedFile(path)
    file.setFormatter(_formatter("text" if config.format == "text" else "json"))
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, logging.handlers.MemoryHandler):
            handler.setTarget(file)
            handler.flush()
    others = [each for each in root.handlers if not isinstance(each, logging.handlers.MemoryHandler | _BoundedFile)]
    root.handlers = [file, *others]


class _BoundedFile(logging.handlers.RotatingFileHandler):
    """For its owner only. A disk that is full loses lines, and stops nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> TextIO:  # type: ignore[override]  # it is a text file, in any case
        def private(name: str, flags: int) -> int:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.fchmod(descriptor, 0o600)
            return descriptor

        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """The usual one would print a stack trace between a person's lines."""


def _to_stream(config: LogConfig, stream: TextIO) -> logging.Handler:
    as_json = config.format == "json" or (config.format == "auto" and not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter("json" if as_json else "text", colors=stream.isatty()))
    return handler


def _formatter(form: str, *, colors: bool = False) -> logging.Formatter:
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, mask_secrets, renderer],
    )


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,  # as text, before masking: other formats would print local variables
    ]


def _install(config: LogConfig, handlers: Sequence[logging.Handler]) -> None:
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers = list(handlers)
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
