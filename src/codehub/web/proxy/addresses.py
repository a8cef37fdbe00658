"""Where to connect to, for an endpoint that a driver left in the row. Pure."""


def address_of(endpoint: str, port: int | None) -> str:
    """The endpoint itself for the IDE; a port is on the same host, or behind the socket `ports` beside the IDE's."""
    if port is None:
        return endpoint
    if endpoint.startswith("unix:"):
        return f"{endpoint.rpartition('/')[0]}/ports"
    return f"{endpoint.rpartition(':')[0]}:{port}"
