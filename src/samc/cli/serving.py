"""A server of one page, to this machine only: its own page and the name of its state, and no file by any path."""

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from samc.errors import OutputError, UserError

ADDRESS = "127.0.0.1"
LEAST_SECONDS = 2.0
# between two looks at the folder, so that a page that is looked at takes little from the run
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Latest:
    """A page and the name of the state that it shows, made anew when the state has changed."""

    def __init__(self, state: Callable[[], str], page: Callable[[str], str]):
        self.state, self.page = state, page
        self.lock = threading.Lock()  # figures are drawn one at a time
        self.seen, self.looked, self.shown, self.content = "", -LEAST_SECONDS, "", ""

    def current_state(self) -> str:
        with self.lock:
            return self.look()

    def look(self) -> str:
        if time.monotonic() - self.looked >= LEAST_SECONDS:
            self.seen, self.looked = self.state(), time.monotonic()
        return self.seen

    def current_page(self) -> str:
        with self.lock:
            if self.look() != self.shown:
                self.content, self.shown = self.page(self.seen), self.seen
            return self.content


class Handler(BaseHTTPRequestHandler):
    """Answers for two paths and no other; a name that is not this machine's own is refused, whoever resolves to it."""

    server: "PageServer"
    server_version, sys_version = "samc", ""
    timeout = 30

    def do_GET(self) -> None:
        own = [[f"{name}:{self.server.server_port}"] for name in (ADDRESS, "localhost")]
        pages = {"/": ("text/html", "current_page"), "/state": ("text/plain", "current_state")}
        if self.headers.get_all("Host") not in own:
            self.answer(HTTPStatus.FORBIDDEN, "text/plain", "This address is not this server's.\n")
        elif self.path not in pages:
            self.answer(HTTPStatus.NOT_FOUND, "text/plain", "There is one page here: /\n")
        else:
            kind, made = pages[self.path]
            try:
                self.answer(HTTPStatus.OK, kind, getattr(self.server.latest, made)())
            except (UserError, OSError) as error:  # a file that is damaged, or has just gone
                self.answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n")

    def answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads a line per request."""


class PageServer(ThreadingHTTPServer):
    """Serves the latest page on the loopback address, until it is shut down."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, latest: Latest, port: int):
        self.latest = latest
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            raise OutputError(f"cannot serve on port {port}: {error.strerror}; choose another --port") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error of ours."""

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"
