"""A data scientist's first minute on a bare machine: the standard library only, run by its own python3.

    python3 -m tests.bare.plot COMMAND…    COMMAND starts CodeHub, such as `make up`

Create a workspace → `%pip install numpy matplotlib` in a notebook → plot → stop → archive → start → plot, with nothing
installed again. The last line is a JSON object with the seconds of each.
"""

import base64
import json
import os
import sys
import time
import uuid
from dataclasses import dataclass

from tests.bare.life import PORT, Browser, CodeHub, Failed, Life, log_in
from tests.bare.websocket import Line
from tests.lab import packages

INSTALL = "%pip install numpy matplotlib"
PLOT = """
import numpy as np
import matplotlib.pyplot as plt
x = np.linspace(0, 6, 200)
plt.plot(x, np.sin(x))
plt.show()
"""
_SIGN = b"\x89PNG\r\n\x1a\n"
_SECONDS = 300.0  # packages come from the network


@dataclass(frozen=True)
class Shown:
    """What is below a cell."""

    text: str
    picture: bytes


class Notebook:
    """A kernel of the workspace's JupyterLab, by way of the proxy."""

    def __init__(self, browser: Browser, life: Life) -> None:
        kernel = life.ask("POST", "kernels", {})["id"]
        host, api = life.api
        self._line = Line(PORT, host, f"{api}/kernels/{kernel}/channels", browser.cookies(host), _SECONDS)

    def run(self, code: str) -> Shown:
        number = uuid.uuid4().hex
        header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": "plot", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._line.send(json.dumps(message))
        text, picture = "", b""
        while True:
            answer = json.loads(self._line.receive())
            if answer["parent_header"].get("msg_id") != number:
                continue
            kind, inside = answer["header"]["msg_type"], answer["content"]
            if kind == "stream":
                text += inside["text"]
            elif kind == "display_data":
                picture = base64.b64decode(inside["data"].get("image/png", ""))
            elif kind == "error":
                raise Failed(f"{inside['ename']}: {inside['evalue']}; {text[-600:]}")
            elif kind == "status" and inside["execution_state"] == "idle":
                return Shown(text, picture)

    def plot(self) -> None:
        shown = self.run(PLOT)
        if not shown.picture.startswith(_SIGN):
            raise Failed(f"no picture came back: {shown.text[-600:]}")

    def close(self) -> None:
        self._line.close()


class Watch:
    """Seconds since it was made, noted by name."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.noted: list[str] = []

    def note(self, what: str) -> None:
        self.noted.append(f"{what} {time.monotonic() - self._began:.1f} s")


def first_plot(browser: Browser) -> tuple[Life, Watch]:
    watch = Watch()
    life = Life(browser, "plot")
    life.reach("RUNNING")
    life.page()
    watch.note("page")
    notebook = Notebook(browser, life)
    notebook.run("1")
    watch.note("first cell")
    notebook.run(INSTALL)
    watch.note("packages")
    notebook.plot()
    watch.note("plot")
    notebook.close()
    return life, watch


def plot_again(browser: Browser, life: Life) -> Watch:
    watch = Watch()
    life.go("RUNNING")
    life.page()
    watch.note("page")
    notebook = Notebook(browser, life)
    notebook.plot()
    watch.note("plot")
    notebook.close()
    return watch


def live(command: list[str]) -> dict[str, object]:
    os.environ.setdefault("PROCESS_ALLOW", packages.networks())
    codehub = CodeHub(command)
    done: dict[str, object] = {"url": codehub.wait(), "sandbox": codehub.is_sandboxed}
    browser = log_in(codehub.password)
    life, first = first_plot(browser)
    life.go("STANDBY")
    archived = Watch()
    life.go("ARCHIVED")
    archived.note("archived in")
    again = plot_again(browser, life)
    done["life"] = codehub.seconds
    life.go("STANDBY")  # what runs at the end goes on running, by design
    life.delete()
    codehub.stop()
    moments = [("from Create: ", first), ("", archived), ("from Start: ", again)]
    return done | {"moments": [words + ", ".join(watch.noted) for words, watch in moments]}


def main() -> int:
    try:
        done = live(sys.argv[1:])
    except (Failed, OSError) as error:
        done = {"failed": str(error)}
    sys.stdout.write(f"{json.dumps(done)}\n")
    return 1 if "failed" in done else 0


if __name__ == "__main__":
    sys.exit(main())
