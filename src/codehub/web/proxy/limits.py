"""What the public port grants: every wait has an end, every number of connections is finite."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one process. Bodies are of any size, and exchanges take as long as they take while something moves."""

    connections: int = 20_000
    connections_per_address: int = 2_048  # an office behind one address; trusted proxies are not counted
    unasked_per_address: int = 256  # of these, that have not sent a whole request
    unasked_seconds: float = 1.0  # until one of too many of those has to go
    head_bytes: int = 64 * 1024
    target_bytes: int = 16 * 1024
    head_seconds: float = 20.0  # from a request's first byte, or from connecting, to the end of its head
    idle_seconds: float = 75.0  # between two requests
    body_seconds: float = 120.0  # without a byte of a body that was announced
    stalled_seconds: float = 180.0  # without a byte taken by a side, client or upstream, that data waits for
    answer_seconds: float = 600.0  # without a byte of an answer to a request that was sent whole
    half_closed_seconds: float = 30.0  # without a byte for a client that will send no more: it may be gone
    linger_seconds: float = 5.0  # reading on after an early answer, so that the answer arrives
    connect_seconds: float = 5.0
    pool_per_key: int = 128
    pool_total: int = 2_048
    pool_seconds: float = 4.0  # below the 5 s after which servers commonly close
    drain_seconds: float = 10.0  # for exchanges, when stopping
    tunnel_seconds: float = 15.0  # for WebSockets, when stopping
    pipelined_bytes: int = 64 * 1024  # of requests that came before their turn
    write_bytes: int = 256 * 1024  # waiting for a slow reader, per direction

    @property
    def reserved(self) -> int:
        """Connections for health checks and for whoever is logged in (places.py)."""
        return self.connections // 10
