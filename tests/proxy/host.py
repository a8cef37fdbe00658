"""A proxy in a process of its own, so that its memory can be looked at: `python -m tests.proxy.host ADDRESS`."""

import sys

import uvloop

from codehub.web.proxy.ports import Route
from codehub.web.proxy.serving import serve
from codehub.web.server import listen
from tests.proxy.world import WORKSPACE, PlainGate

if __name__ == "__main__":
    listener = listen("127.0.0.1", 0)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvloop.run(serve(PlainGate(Route("one", sys.argv[1], WORKSPACE)), [listener]))
