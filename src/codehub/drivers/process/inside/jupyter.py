"""JupyterLab on the socket inherited as descriptor 3. Run with the Python that JupyterLab is installed in.

    jupyter.py PREFIX   PREFIX is where the browser sees it, such as /w/ID/

Its pages name their addresses below PREFIX. Whoever passes requests on may strip the prefix or leave it: one that lacks
it gets it back here, so a proxy treats every IDE alike. There is no password: only the proxy reaches the socket. The
proxy is believed (X-Forwarded-*), checks the Origin of WebSockets itself, and drops such headers from the browser.
"""

import os
import socket
import sys

import home_python  # type: ignore[import-not-found]  # beside us
import safe_mode  # type: ignore[import-not-found]  # beside us
from jupyter_server.serverapp import ServerApp  # type: ignore[import-not-found]
from jupyterlab.labapp import LabApp  # type: ignore[import-not-found]
from tornado import web  # type: ignore[import-not-found]
from tornado.httputil import HTTPServerRequest  # type: ignore[import-not-found]

INHERITED = 3


def restore_prefix(prefix: str) -> None:
    find = web.Application.find_handler

    def find_with_prefix(self: web.Application, request: HTTPServerRequest, **more: object) -> object:
        if not request.path.startswith(prefix):
            request.path = prefix + request.path.lstrip("/")
            request.uri = prefix + request.uri.lstrip("/")
        return find(self, request, **more)

    web.Application.find_handler = find_with_prefix


def listen_on_inherited() -> None:
    def bind(self: ServerApp) -> bool:
        listener = socket.socket(fileno=INHERITED)
        listener.setblocking(False)
        self.http_server.add_sockets([listener])
        return True

    ServerApp._bind_http_server = bind  # noqa: SLF001 - there is no option to inherit a socket


def shell() -> list[str]:
    if safe_mode.HOME in os.environ:
        return list(safe_mode.shell())
    return [os.environ.get("SHELL", "/bin/sh")]


def main(prefix: str) -> None:
    if safe_mode.HOME not in os.environ:
        home_python.prepare()
    restore_prefix(prefix)
    listen_on_inherited()
    LabApp.launch_instance(
        [
            f"--ServerApp.base_url={prefix}",
            f"--ServerApp.root_dir={os.environ.get(safe_mode.HOME, '~')}",
            "--ServerApp.open_browser=False",
            "--ServerApp.allow_remote_access=True",
            "--ServerApp.allow_origin_pat=.*",
            "--ServerApp.trust_xheaders=True",
            "--ServerApp.quit_button=False",
            "--ServerApp.use_redirect_file=False",
            "--ServerApp.terminals_enabled=True",
            # No login shell: /etc/profile would set PATH anew.
            f"--ServerApp.terminado_settings={{'shell_command': {shell()!r}}}",
            "--IdentityProvider.token=",
            "--PasswordIdentityProvider.hashed_password=",
            "--PasswordIdentityProvider.allow_password_change=False",
            "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1])
