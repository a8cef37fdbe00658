"""What of a stack is closed to whom: each function returns a line for everything that is open, and should not be."""

import json
from pathlib import Path

import psycopg
from psycopg.errors import InsufficientPrivilege

from codehub.cli.main import app
from tests.compose import dial
from tests.compose.stack import Stack

SEAWEED_PORTS = (8888, 9333, 8080, 18888, 19333, 18080, 18333)
GRPC_OF_S3 = 18333  # open, and speaks to nobody: compose.yaml says why
REFUSED = 403
MOST_BYTES = 350 << 20

LOGINS = {"codehub_proxy": {"codehub_proxy_login"}, "codehub_api": {"codehub_api_login", "codehub"}}
HIDDEN_FROM_PROXIES = ("SELECT password_hash FROM users", "TABLE audit_log", "SET ROLE codehub_api", "CREATE ROLE mine")
HIDDEN_FROM_APIS = ("SET ROLE codehub_controller", "CREATE ROLE mine", "COPY (SELECT 1) TO PROGRAM 'true'")


def archives(up: Stack) -> list[str]:
    """To somebody without a key: on the machine, where proxies are, in the store's own network, and in an API."""
    address = up.address("s3", "archives")
    program = Path(dial.__file__)
    beside = up.docker(
        *("run", "--rm", "--network", f"{up.project}_archives", "--volume", f"{program}:/dial.py:ro"),
        *(up.environment["CODEHUB_IMAGE"], "python3", "-I", "/dial.py", address),
    )
    wrong = [
        f"{where} meets an S3 server that says {said}"
        for where, said in (("the machine", dial.dial(address)), ("a container beside it", json.loads(beside)))
        if said != {"open": [dial.S3_PORT, GRPC_OF_S3], "grpc": [], "s3": [REFUSED] * 3}
    ]
    for port in (dial.S3_PORT, *SEAWEED_PORTS[:2]):
        script = f"import socket; s = socket.socket(); s.settimeout(2); print(s.connect_ex(('{address}', {port})))"
        if up.run("exec", "-T", "api-1", "python3", "-I", "-c", script).strip() == "0":
            wrong.append(f"an API reaches port {port} of the S3 server")
    return wrong


def database(up: Stack) -> list[str]:
    """To proxies and APIs, whose logins are not the owner's."""
    wrong = []
    with psycopg.connect(up.database_url(), connect_timeout=10) as owner:
        there = owner.execute(
            "SELECT DISTINCT application_name, usename FROM pg_stat_activity WHERE application_name = ANY(%s)",
            [list(LOGINS)],
        ).fetchall()
    used = {part: {str(user) for name, user in there if name == part} for part in LOGINS}
    if used != LOGINS:
        wrong.append(f"the logins in use are {used}")
    for name, hidden in (("PROXY_DATABASE_URL", HIDDEN_FROM_PROXIES), ("API_DATABASE_URL", HIDDEN_FROM_APIS)):
        with psycopg.connect(up.database_url(name), connect_timeout=10, autocommit=True) as conn:
            for statement in hidden:
                try:
                    conn.execute(statement.encode())
                except InsufficientPrivilege:
                    continue
                wrong.append(f"{name} may do this: {statement}")
    return wrong


def image(up: Stack) -> list[str]:
    """The image: small, nobody's in particular, and every command of it starts without anything to write to."""
    name, wrong = up.environment["CODEHUB_IMAGE"], []
    (about,) = json.loads(up.docker("image", "inspect", name))
    if about["Config"]["User"] != "10001:10001":
        wrong.append(f"the image runs as {about['Config']['User']!r}")
    if about["Size"] > MOST_BYTES:
        wrong.append(f"the image has {about['Size'] >> 20} MiB")
    commands = [each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands]
    commands += [str(group.name) for group in app.registered_groups]
    tried = [f"codehub {command} --help" for command in commands]
    tried += [
        "python3 -c 'import codehub.storage_job.main'",
        "pg_dump --version",
        "pg_restore --version",
        "psql --version",
    ]
    script = "\n".join(f"{each} >/dev/null 2>&1 || echo {each.split()[:2]}" for each in tried)
    failed = up.docker(
        *("run", "--rm", "--read-only", "--network", "none", "--cap-drop", "ALL", name, "sh", "-c", script)
    )
    return wrong + [f"in the image this fails: {line}" for line in failed.splitlines()]


def ports_of(address: str) -> set[int]:
    """Those of SeaweedFS's that can be dialled and serve; for a server that is elsewhere than in a stack."""
    return {
        port
        for port in SEAWEED_PORTS
        if (dial.is_open(address, port) if port != GRPC_OF_S3 else dial.speaks_grpc(address, port, tls=False))
    }
