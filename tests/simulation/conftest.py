from tests.coordinator.conftest import records

__all__ = ["records"]
