"""A process that has a data directory, and with `servers` its servers, until its standard input ends.

Says one line of JSON: the URLs, or the error that kept it from starting.
"""

import asyncio
import json
import sys
from pathlib import Path

from codehub.embedded import DataDir, EmbeddedServers
from codehub.errors import StartError


def say(**what: str | None) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def hold(data: DataDir) -> None:
    async with EmbeddedServers(data).running() as servers:
        say(database_url=servers.database_url, redis_url=servers.redis_url)
        await asyncio.to_thread(sys.stdin.read)


def main(mode: str, path: Path) -> None:
    try:
        with DataDir.open(path) as data:
            if mode == "servers":
                asyncio.run(hold(data))
            else:
                data.publish_url("http://127.0.0.1:8000")
                say()
                sys.stdin.read()
    except StartError as error:
        say(error=str(error))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
