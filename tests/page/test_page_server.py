"""The server: accepted and refused requests, and requests that do not wait for each other."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
from page_client import Client

import equifactor.solving.registry
from equifactor import FactorGraph, OptionError, Status, Task, open_view
from equifactor.generators import ising_grid
from equifactor.page.model_session import ModelSession
from equifactor.page.page_server import PageServer
from equifactor.page.viewer import Page, Viewer
from equifactor.solvers import Estimate, GraphSolver, SolveContext

Serve = Callable[[Page], Client]


@pytest.fixture
def client(serve: Serve, network: FactorGraph) -> Client:
    return serve(ModelSession(network))


def test_the_page_and_its_headers(client: Client) -> None:
    status, headers, text = client.raw("GET", f"/{client.server.token}/")
    assert status == 200
    assert text.startswith(b"<!doctype html>") or text.startswith(b"<!DOCTYPE html>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert client.raw("HEAD", f"/{client.server.token}/")[2] == b""


def test_it_listens_on_loopback_alone(client: Client) -> None:
    assert client.server.server_address[0] == "127.0.0.1"
    assert client.server.url == f"http://127.0.0.1:{client.server.server_port}/{client.server.token}/"
    assert len(client.server.token) >= 20


@pytest.mark.parametrize("path", ["/", "/api/session", "/wrong/api/session", "/index.html", "//", "/%C3%A9/", "/TOKEN"])
def test_nothing_without_the_token(client: Client, path: str) -> None:
    path = path.replace("TOKEN", client.server.token)
    assert client.raw("GET", path)[0] == 404
    assert client.raw("POST", path, b"{}")[0] == 404


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Host": ""}, {"Origin": "http://evil.example"}])
def test_nothing_for_other_sites(client: Client, headers: dict[str, str]) -> None:
    assert client.raw("GET", f"/{client.server.token}/api/session", headers=headers)[0] == 404


def test_localhost_is_this_machine_too(client: Client) -> None:
    own = f"localhost:{client.server.server_port}"
    headers = {"Host": own, "Origin": f"http://{own}"}
    assert client.raw("GET", f"/{client.server.token}/api/session", headers=headers)[0] == 200


@pytest.mark.parametrize(
    "name",
    [
        "../page_server.py", "%2e%2e/page_server.py", "..%2fpage_server.py", "%2fetc/passwd", "./../__init__.py",
        "a//b.js", "..%5cpage_server.py", "index.html%00", ".hidden.js", "nothing.js",
    ],
)  # fmt: skip
def test_files_outside_of_the_page_are_not_read(client: Client, name: str) -> None:
    assert client.raw("GET", f"/{client.server.token}/{name}")[0] == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b"3", b"\xff", b"[" * 100_000])
def test_questions_that_are_no_json_object(client: Client, body: bytes) -> None:
    status, _, text = client.raw("POST", f"/{client.server.token}/api/solve", body)
    assert status == 400
    assert "JSON" in json.loads(text)["error"]


def test_questions_without_end(client: Client) -> None:
    headers = {"Content-Length": str(2**40)}
    assert client.raw("POST", f"/{client.server.token}/api/solve", None, headers)[0] == 400


@pytest.mark.parametrize(
    ("verb", "route"), [("GET", "solve"), ("POST", "graph"), ("GET", "nothing"), ("GET", "results")]
)
def test_unknown_questions(client: Client, verb: str, route: str) -> None:
    assert client.status(verb, route, {} if verb == "POST" else None)[0] == 404


def test_a_port_that_is_taken(client: Client, network: FactorGraph) -> None:
    with pytest.raises(OptionError, match=r"Port \d+ is in use. Choose another port"):
        PageServer(Viewer(ModelSession(network)), client.server.server_port)


# ---- runs that take long --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sleeper(GraphSolver):
    """A solver that sleeps until its time limit."""

    name = "sleeper"
    asleep: ClassVar[threading.Semaphore] = threading.Semaphore(0)  # is released when a run begins

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        self.asleep.release()
        while not context.clock.stopped:
            time.sleep(0.005)
            context.report(0, None)
        return Estimate(status=Status.TIME_LIMIT)


@pytest.fixture
def asleep(client: Client, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, dict[str, str]]]]:
    """Ask the sleeper from a thread; its answer is appended to the list."""
    monkeypatch.setitem(equifactor.solving.registry._REGISTRY, "sleeper", Sleeper)

    def ask(**asked: object) -> tuple[threading.Thread, list[tuple[int, dict[str, str]]]]:
        replies: list[tuple[int, dict[str, str]]] = []
        thread = threading.Thread(
            target=lambda: replies.append(client.status("POST", "solve", {"solver": "sleeper", **asked}))
        )
        thread.start()
        assert Sleeper.asleep.acquire(timeout=600)
        return thread, replies

    return ask  # type: ignore[return-value]


def test_a_deadline_is_kept_and_nobody_waits_for_a_slow_run(client: Client, asleep, driven_time) -> None:
    thread, replies = asleep(seconds=1.0)
    assert client.post("solve", solver="exact")["status"] == "exact"
    assert not replies
    driven_time.advance(2.0)
    thread.join(600)
    assert replies[0][0] == 200
    assert replies[0][1]["status"] == "time-limit"


def test_a_newer_question_of_the_same_client_ends_the_older_run(client: Client, asleep, driven_time) -> None:
    thread, replies = asleep(seconds=30, client="a")
    others, kept = asleep(seconds=0.6, client="b")
    assert not replies
    newer, newest = asleep(seconds=0.0, client="a", evidence={"0": 1})
    thread.join(600)
    driven_time.advance(2.0)
    for t in (others, newer):
        t.join(600)
    assert replies[0][0] == 409
    assert "newer request" in replies[0][1]["error"]
    assert kept[0][0] == newest[0][0] == 200


def test_what_nobody_meant_to_raise_shows_no_traceback(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSession, "plan", lambda self, asked: 1 / 0)
    status, reply = client.status("POST", "plan", {})
    assert status == 500
    assert reply["error"] == "this is a bug, please report it: ZeroDivisionError: division by zero"


def test_a_graph_is_shown_from_python() -> None:
    page = open_view(ising_grid(3, 3, seed=0).condition({4: 1}), open_browser=False)
    try:
        session = Client(page).get("session")
        assert session["fixed"] == {"4": 1}
        assert session["evidence"] == {}
        assert "The model itself observes variable 4" in Client(page).refused("solve", evidence={"4": 0})
        assert Client(page).post("solve", evidence={"0": 1})["marginals"][4] == [0.0, 1.0]
    finally:
        page.close()
