"""How many files this process and its servers may have open: each visitor of a workspace needs two."""

import contextlib
import resource

from codehub.errors import StartError

LEAST = 1024
WANTED = 65536


def raise_limit() -> None:
    """As far as this user may. Raises StartError when that is too little to work with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= WANTED:
        return
    possible = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, possible), hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < LEAST:
        raise StartError(
            f"Only {soft} files may be open at once; CodeHub needs {LEAST}.",
            f"Raise the limit (ulimit -n {LEAST * 4}; for a systemd unit LimitNOFILE={LEAST * 4}) and start again.",
        )
