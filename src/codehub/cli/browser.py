"""Opening the dashboard in a browser, for `codehub up --open`. Never fails a start.

A one-time link among a browser's arguments could be read by everybody on this machine: the browser gets a file that
only this user can read, which leads on to it.
"""

import asyncio
import contextlib
import html
import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

_FILE = "open.html"
_SECONDS = 10.0


async def open_page(url: str, folder: Path, say: Callable[[str], None]) -> None:
    """Open it through a file of that folder; say so if there is no browser to open it in."""
    if not has_display():
        say("No display: open the link above in a browser on this machine.")
        return
    try:
        page = _write(url, folder)
        opened = await _open(page.as_uri())
    except (OSError, webbrowser.Error) as error:
        log.info("no browser was opened", why=str(error))
        opened = False
    if not opened:
        say("No browser could be opened: open the link above.")


async def _open(address: str) -> bool:
    """Whether it was opened. A browser that is still there after some seconds was: it stays in the foreground.

    In a thread that nobody waits for: such a browser must not hold up our end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def tell(opened: bool, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(opened)
        else:
            done.set_exception(error)

    def work() -> None:
        opened, failed = False, None
        try:
            opened = webbrowser.open(address)
        except (OSError, webbrowser.Error) as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: we have ended
            loop.call_soon_threadsafe(tell, opened, failed)

    threading.Thread(target=work, name="browser", daemon=True).start()
    try:
        return await asyncio.wait_for(done, _SECONDS)
    except TimeoutError:
        return True


def forget(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / _FILE).unlink(missing_ok=True)


def has_display(environment: Mapping[str, str] = os.environ) -> bool:
    """Without one a browser of text could take over the terminal."""
    return sys.platform == "darwin" or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def _write(url: str, folder: Path) -> Path:
    page = folder / _FILE
    page.unlink(missing_ok=True)
    text = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={html.escape(url)}">\n'
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return page
