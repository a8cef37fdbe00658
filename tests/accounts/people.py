"""People for tests: users on a test database, with a session or a token, past the login (whose hashing is slow)."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from codehub.db import accounts as account_rows
from codehub.db import sessions as session_rows
from codehub.db import tokens as token_rows
from codehub.db.pool import Connection, Pool, connection
from codehub.model.workspace import UserId
from codehub.services import passwords, proofs
from codehub.services.actors import Actor, ActorKind, Scope, UserRole
from codehub.services.sessions import hash_of, new_secret
from codehub.web.cookies import PLAIN


@dataclass(frozen=True)
class Person:
    """A user who exists."""

    id: UserId
    username: str
    role: UserRole

    @property
    def actor(self) -> Actor:
        """The person as services see them; the credential is made up."""
        return Actor(
            user_id=self.id,
            username=self.username,
            role=self.role,
            kind=ActorKind.USER,
            credential_id=str(uuid4()),
            address="192.0.2.1",
            is_proven=True,
        )


async def add_person(pool: Pool, username: str = "ada", role: UserRole = UserRole.USER) -> Person:
    """A user without a password."""
    person = Person(UserId(uuid4()), username, role)
    async with connection(pool) as conn:
        await conn.execute(
            "INSERT INTO users (id, username, role) VALUES (%s, %s, %s)", [person.id, username, role.value]
        )
    return person


async def session_headers(pool: Pool, person: Person, lifetime: timedelta = timedelta(days=1)) -> dict[str, str]:
    """Headers of a request in a new session of the person's, as a browser on http:// sends them."""
    secret = new_secret()
    async with connection(pool) as conn:
        session = await session_rows.insert(
            conn, person.id, hash_of(secret), lifetime, address="192.0.2.1", user_agent="a test"
        )
        proof = await proofs.draw(conn, session)
    return {"Cookie": f"{PLAIN}={secret}", "Sec-Fetch-Site": "same-origin", "Login-Proof": proof}


async def token_headers(
    pool: Pool, person: Person, scope: Scope = Scope.WRITE, lifetime: timedelta | None = None
) -> dict[str, str]:
    """Headers of a program with a new token of the person's."""
    secret = f"chp_{new_secret()}"
    async with connection(pool) as conn:
        await token_rows.insert(conn, person.id, hash_of(secret), name="a test", scope=scope.value, lifetime=lifetime)
    return {"Authorization": f"Bearer {secret}"}


async def set_password(pool: Pool, person: Person, password: str) -> None:
    """Give the person a password; slow, like every hash."""
    async with connection(pool) as conn:
        await account_rows.set_password(conn, person.id, await passwords.hashed(password))


async def some_password(pool: Pool, *people: Person) -> None:
    """Let them be people who can log in, with passwords that nobody knows; this is quick."""
    async with connection(pool) as conn:
        for person in people:
            await account_rows.set_password(conn, person.id, "$argon2id$of-nothing")


async def blocks_somebody(watcher: Connection, holder: Connection) -> bool:
    """Whether another session waits for a lock of the holder's transaction."""
    found = await watcher.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid)))", [holder.info.backend_pid]
    )
    return await found.fetchone() == (True,)
