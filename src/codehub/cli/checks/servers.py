"""PostgreSQL, Redis and the archive store, as the settings name them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from codehub.config import Settings
from codehub.db import clock, migrate
from codehub.db.pool import Role, connection, open_pool
from codehub.drivers import places
from codehub.drivers.load import open_store
from codehub.embedded.runtime import postgres_package, valkey_package
from codehub.errors import CodeHubError, StartError
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, failed_by, ok, warning
from codehub.services.doctor.standing import skew
from codehub.signals.connect import open_redis
from codehub.signals.connect import ping as ping_redis

SECONDS = 15.0
POSTGRES, REDIS, STORE, CLOCK = "postgresql", "redis", "archive store", "clock"


async def postgresql(settings: Settings) -> list[Finding]:
    if settings.database.url is None:
        return [_of_its_own(POSTGRES)]
    url = settings.database.url.get_secret_value()
    try:
        found = await asyncio.to_thread(migrate.schema_version, url)
    except StartError as error:
        return [failed_by(codes.DATABASE, error)]
    if (other := await other_schema(url, found)) is not None:
        return [other]
    return [ok(POSTGRES, f"it answers, with schema version {found}"), await _database_clock(url)]


async def other_schema(url: str, found: str | None, advice: str | None = None) -> Finding | None:
    """Where this version cannot use the schema that was `found`; `advice` for an older one, if not to migrate it."""
    try:
        await asyncio.to_thread(migrate.require_newest, url)
    except StartError as error:
        newer = found is not None and found > migrate.newest_version()
        return failed_by(codes.SCHEMA, error) if newer else warning(codes.SCHEMA, error.message, advice or error.hint)
    return None


async def _database_clock(url: str) -> Finding:
    try:
        async with asyncio.timeout(SECONDS), open_pool(url, Role.API, max_size=1) as pool, connection(pool) as conn:
            theirs = await clock.now(conn)
    except (CodeHubError, TimeoutError) as error:
        why = str(error) or "it did not answer in time"
        return failed(codes.ROLE, f"The service layer's role cannot be used: {why}", "Run `codehub migrate`.")
    return skew(theirs, datetime.now(UTC), "the database")


async def redis(settings: Settings) -> Finding:
    if settings.redis.url is None:
        return _of_its_own(REDIS)
    try:
        async with asyncio.timeout(SECONDS), open_redis(settings.redis.url.get_secret_value()) as client:
            await ping_redis(client)
    except TimeoutError:
        return failed(codes.REDIS, "Redis did not answer in time.", "Check that it runs and that REDIS_URL is right.")
    except CodeHubError as error:
        return failed_by(codes.REDIS, error)
    return ok(REDIS, "it answers")


def _of_its_own(check: str) -> Finding:
    try:
        package = postgres_package() if check == POSTGRES else valkey_package()
    except StartError as error:
        return failed_by(codes.PROGRAMS, error, check=check)
    return ok(check, f"{package.title}, started by `codehub up`")


async def archive_store(settings: Settings, data_dir: Path) -> Finding:
    url = settings.store.url or (data_dir / "archives").as_uri()
    try:
        store = open_store(settings.store, url)
        known = places.knows_store(data_dir, url)
        async with asyncio.timeout(SECONDS):
            await store.ping()
    except TimeoutError:
        return failed(codes.STORE, f"It did not answer within {SECONDS:g} s.", "Check ARCHIVE_URL and the network.")
    except CodeHubError as error:
        if url.startswith("file:") and not known_or_false(data_dir, url):
            return ok(STORE, f"{url} will be made by the first start.")
        return failed(codes.STORE, error.message, error.hint or "Check ARCHIVE_URL and the S3_… settings.")
    return ok(STORE, f"{url} answers" if known else f"{url} answers; not used yet")


def known_or_false(data_dir: Path, url: str) -> bool:
    try:
        return places.knows_store(data_dir, url)
    except CodeHubError:
        return True  # a note that cannot be read is told as it is
