"""A small client of the page's server."""

from __future__ import annotations

import http.client
import json
from typing import Any

from equifactor.page.page_server import PageServer

HOSTILE = "</script><script>alert(1)</script>"


class Client:
    """A client that asks a server and reads its JSON; `raw` returns status, headers and bytes of any answer."""

    def __init__(self, server: PageServer) -> None:
        self.server = server

    def raw(
        self, verb: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        link = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=600)
        try:
            link.request(verb, path, body, headers or {})
            reply = link.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            link.close()

    def status(self, verb: str, route: str, asked: Any = None) -> tuple[int, Any]:
        body = None if asked is None else json.dumps(asked).encode()
        status, _, text = self.raw(verb, f"/{self.server.token}/api/{route}", body)
        return status, json.loads(text)

    def get(self, route: str) -> Any:
        status, reply = self.status("GET", route)
        assert status == 200, reply
        return reply

    def post(self, route: str, **asked: Any) -> Any:
        status, reply = self.status("POST", route, asked)
        assert status == 200, reply
        return reply

    def refused(self, route: str, **asked: Any) -> str:
        """Return the error sentence of a question that is refused."""
        status, reply = self.status("POST", route, asked)
        assert status == 400, reply
        assert "Traceback" not in reply["error"]
        return str(reply["error"])
