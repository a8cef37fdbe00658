from tests.coordinator.conftest import owner, records, redis

__all__ = ["owner", "records", "redis"]
