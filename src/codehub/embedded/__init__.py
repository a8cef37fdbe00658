"""The servers that `codehub up` starts by itself: a real PostgreSQL and a real Valkey under one data directory.

    with DataDir.open(default_data_dir()) as data:
        async with EmbeddedServers(data).running() as servers:
            servers.database_url, servers.redis_url

Neither server listens on a network, both ask for a password, and neither outlives the process that started it.
"""

from codehub.embedded.datadir import DataDir, default_data_dir
from codehub.embedded.servers import EmbeddedServers, RunningServers

__all__ = ["DataDir", "EmbeddedServers", "RunningServers", "default_data_dir"]
