"""The server of the page, for this machine only: loopback, a random token in the address, no outside resources."""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from equifactor.base.errors import EquifactorError, OptionError
from equifactor.base.files import reason
from equifactor.page.model_session import SupersededError
from equifactor.page.plain_json import as_json
from equifactor.page.viewer import UnknownRouteError, Viewer

PAGE = Path(__file__).parent / "static"
HOST = "127.0.0.1"
_MOST_BYTES = 4 * 2**20  # bytes of a request. Chosen by hand.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # The address contains the token.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PageServer(ThreadingHTTPServer):
    """One viewer at one address. Every request has its own thread, so that a slow one does not block the others."""

    daemon_threads = True

    def __init__(self, viewer: Viewer, port: int | None = None) -> None:
        """Open a port of this machine, any free one if None; raises `OptionError` if it is in use."""
        self.viewer, self.token = viewer, secrets.token_urlsafe(16)
        try:
            super().__init__((HOST, port or 0), _Handler)
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "is in use" if taken else f"cannot be used ({reason(error)})"
            raise OptionError(f"Port {port} {why}. Choose another port with --port, or leave it out.") from None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"PageServer({self.url})"

    @property
    def url(self) -> str:
        """The address for the browser."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def start(self) -> None:
        """Serve from a separate thread until `close`."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="equifactor view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server and release the port."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
            self._thread = None
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: the browser left before its answer was sent."""


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "equifactor"
    sys_version = ""
    timeout = 60  # seconds until an idle connection is closed. Chosen by hand.

    def do_GET(self) -> None:
        """Send a file of the page, or an answer."""
        self._serve("GET")

    def do_HEAD(self) -> None:
        """Send only the headers."""
        self._serve("GET")

    def do_POST(self) -> None:
        """Send the answer to a JSON request."""
        self._serve("POST")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the user, and the address contains the token."""

    def _serve(self, verb: str) -> None:
        try:
            body = self._body() if verb == "POST" else b""
            inside = self._inside()
            if inside is None or not self._from_here():
                self._refuse(HTTPStatus.NOT_FOUND, "this address does not exist")
            elif inside.startswith("api/"):
                self._answer(verb, inside.removeprefix("api/"), body)
            elif verb == "POST":
                self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "files of the page can only be read with GET")
            else:
                self._file(inside or "index.html")
        except _RequestError as error:
            self.close_connection = True  # The rest of the request was not read.
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _inside(self) -> str | None:
        """Return the path after the token; None for an address without the token."""
        token, slash, rest = urlsplit(self.path).path.removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            return None
        return unquote(rest)

    def _from_here(self) -> bool:
        """Return whether the request names this machine itself; other sites can point their own names at it."""
        own = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        origin = self.headers.get("Origin")
        return self.headers.get("Host", "") in own and (origin is None or origin in {f"http://{o}" for o in own})

    def _body(self) -> bytes:
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 <= size <= _MOST_BYTES:
            raise _RequestError(f"A request must have a Content-Length between 0 and {_MOST_BYTES} bytes.")
        return self.rfile.read(size)

    def _answer(self, verb: str, route: str, body: bytes) -> None:
        try:
            asked = _read_json(body) if verb == "POST" else dict(parse_qsl(urlsplit(self.path).query))
            text = as_json(self.server.viewer.answer(verb, route, asked))
        except UnknownRouteError:
            return self._refuse(HTTPStatus.NOT_FOUND, "this address does not exist")
        except SupersededError:
            return self._refuse(HTTPStatus.CONFLICT, "a newer request has replaced this one")
        except EquifactorError as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            return self._refuse(HTTPStatus.BAD_REQUEST, "this machine has too little memory for this request")
        except Exception as error:
            from equifactor.solving.plugins import blame

            bug = f"this is a bug, please report it: {type(error).__name__}: {error}"
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, blame(error) or bug)
        self._send(HTTPStatus.OK, _TYPES[".json"], text.encode())

    def _file(self, name: str) -> None:
        path = PAGE / name
        plain = all(part and part[0] != "." and "\\" not in part and "\0" not in part for part in name.split("/"))
        if (
            not plain
            or path.suffix not in _TYPES
            or not path.is_file()
            or not path.resolve().is_relative_to(PAGE.resolve())
        ):
            return self._refuse(HTTPStatus.NOT_FOUND, "this address does not exist")
        self._send(HTTPStatus.OK, _TYPES[path.suffix], path.read_bytes())

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, _TYPES[".json"], as_json({"error": " ".join(sentence.split())}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        with contextlib.suppress(OSError):  # The browser may have gone.
            self.send_response(status)
            for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)


class _RequestError(Exception):
    """A request that is not HTTP as expected."""


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise OptionError("The request is not JSON.") from None
    if not isinstance(asked, dict):
        raise OptionError("The request must be a JSON object.")
    return asked
