"""Settings that hold for every test."""

import os

from hypothesis import HealthCheck, settings

# The ordinary run is the same every time, so a failure is a change's fault; EXAMPLES=100000 searches new ground.
_searching = "EXAMPLES" in os.environ
settings.register_profile(
    "codehub",
    max_examples=int(os.environ.get("EXAMPLES", "1000")),
    deadline=None,
    derandomize=not _searching,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("codehub")
