"""Every finding that is not well has a code, which docs/runbook.md explains under a heading of the same name."""

from dataclasses import dataclass

RUNBOOK = "docs/runbook.md"


@dataclass(frozen=True, slots=True)
class Code:
    """What was checked, and what it means that it is not well."""

    id: str
    check: str
    title: str

    @property
    def link(self) -> str:
        return f"{RUNBOOK}#{self.id.lower()}"


LATE = Code("CH-TIME-1", "doctor", "Not everything was looked at")
PYTHON = Code("CH-PY-1", "python", "Python is too old")
SETTINGS = Code("CH-SET-1", "settings", "A setting is wrong")
DATA = Code("CH-DIR-1", "data directory", "The data directory cannot be used")
SECRETS = Code("CH-DIR-2", "data directory", "Others can read the secrets")
DISK = Code("CH-DISK-1", "disk", "A disk is almost full")
RESERVE = Code("CH-DISK-2", "disk", "No workspace is started: the disk is almost full")
PORT = Code("CH-PORT-1", "port", "The port is in use")
DATABASE = Code("CH-DB-1", "postgresql", "PostgreSQL cannot be used")
SCHEMA = Code("CH-DB-2", "postgresql", "The database has another schema version")
ROLE = Code("CH-DB-3", "postgresql", "A database role cannot be used")
LOST_COMMITS = Code("CH-DB-4", "postgresql", "The database has lost commits")
ADOPTION = Code("CH-DB-5", "postgresql", "A restore has not adopted newer archives yet")
REDIS = Code("CH-RED-1", "redis", "Redis cannot be used")
PROGRAMS = Code("CH-EMB-1", "embedded servers", "The programs of an embedded server are missing")
STORE = Code("CH-STO-1", "archive store", "The archive store cannot be used")
STORE_OUT = Code("CH-STO-2", "archive store", "Archives can be neither made nor restored now")
STORE_OTHER = Code("CH-STO-3", "archives", "Many archives are missing at once")
STORE_OWNER = Code("CH-STO-4", "archive store", "The archive store has another owner")
CLOCK = Code("CH-CLK-1", "clock", "Clocks disagree")
DOCKER = Code("CH-DOC-1", "docker", "The Docker engine cannot be used")
KUBERNETES = Code("CH-K8S-1", "k8s", "The Kubernetes cluster cannot be used")
SANDBOX = Code("CH-BOX-1", "sandbox", "Workspaces cannot be sandboxed")
ISOLATION = Code("CH-BOX-2", "sandbox", "Workspaces are not well isolated")
IDE = Code("CH-IDE-1", "ide", "An IDE cannot be started")
SELF_CHECK = Code("CH-RUN-1", "self-check", "A workspace cannot live here")
SERVER = Code("CH-SRV-1", "server", "The server does not answer")
VERSION = Code("CH-SRV-2", "server", "The server has another version")
DEPENDENCY = Code("CH-SRV-3", "dependency", "A dependency of the server is down")
WEAK = Code("CH-SRV-4", "dependency", "A dependency of the server has a warning")
LOGIN = Code("CH-LOG-1", "login", "You are not logged in")
PUBLIC = Code("CH-URL-1", "public address", "CodeHub does not answer at its public address")
WILDCARD = Code("CH-DNS-1", "wildcard name", "The names of workspaces do not lead to CodeHub")
WEBSOCKET = Code("CH-WS-1", "websockets", "WebSockets do not reach CodeHub's proxy")
LEADER = Code("CH-LEAD-1", "leader", "No coordinator leads")
STUCK = Code("CH-OP-1", "operations", "An operation takes very long")
ERRORS = Code("CH-OP-2", "operations", "Workspaces are in ERROR")
GC_STOPPED = Code("CH-GC-1", "collection", "GC has stopped to protect archives")
MISSING = Code("CH-GC-2", "collection", "Archives are missing")
UNREMEMBERED = Code("CH-GC-3", "collection", "The database does not remember archives")
ORPHANS = Code("CH-ORP-1", "orphans", "Containers or volumes belong to no workspace")

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Code))
