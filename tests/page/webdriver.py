"""A real browser for tests: headless Chromium, controlled by the WebDriver protocol, which is JSON over HTTP."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's name, fixed by the standard
_WAIT = 600.0  # seconds; loops may have to be compiled first


def missing() -> str | None:
    """Return a sentence about a program that is not installed, or None."""
    if not any(map(shutil.which, _BROWSERS)):
        return "no chromium is installed: the page is not tried in a browser"
    return None if shutil.which("chromedriver") else "no chromedriver is installed: the page is not tried in a browser"


class Browser:
    """One browser with its own profile in `folder`, closed at the end of `with`."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 800) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "driver.log").open("w+b")
        self._driver = subprocess.Popen(
            [str(shutil.which("chromedriver")), "--port=0"],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder)},
        )
        self._address = f"http://127.0.0.1:{self._port(folder)}"
        options = {
            "binary": next(filter(None, map(shutil.which, _BROWSERS))),
            "args": [*_FLAGS, f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}"],
        }
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/session/{answer['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._call("DELETE", "", None)
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            self._log.close()

    def open(self, address: str) -> None:
        """Go to an address and wait until the page reports that it is ready."""
        self._call("POST", "/url", {"url": address})
        self.wait("return document.documentElement.dataset.ready")

    def run(self, script: str, *arguments: object) -> Any:
        """Return the result of a script with these arguments."""
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def run_async(self, script: str, *arguments: object) -> Any:
        """Return the value that a script passes to its last argument, a callback."""
        return self._call("POST", "/execute/async", {"script": script, "args": arguments})

    def wait(self, script: str, *arguments: object) -> Any:
        """Run a script until its answer is true, and return the answer."""
        end = time.monotonic() + _WAIT
        while not (answer := self.run(script, *arguments)):
            assert time.monotonic() < end, f"the page never came to: {script}\n{self.complaints()}"
            time.sleep(0.03)
        return answer

    def click(self, selector: str) -> Any:
        """Click an element as a person does."""
        for attempt in range(5):
            name = self._call("POST", "/element", {"using": "css selector", "value": selector})[_ELEMENT]
            try:
                return self._call("POST", f"/element/{name}/click", {})
            except AssertionError as problem:  # The page may have rebuilt the element in the meantime.
                if "stale" not in str(problem) or attempt == 4:
                    raise

    def click_at(self, x: float, y: float) -> None:
        """Click a position of the window."""
        steps = [
            {"type": "pointerMove", "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": steps})

    def keys(self, *keys: str, held: str = "") -> None:
        """Press keys one after the other while the modifier `held` is pressed."""
        steps = [{"type": "keyDown", "value": key} for key in held]
        for key in keys:
            steps += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        steps += [{"type": "keyUp", "value": key} for key in held]
        self._act({"type": "key", "id": "keyboard", "actions": steps})

    def devtools(self, command: str, **parameters: object) -> Any:
        """Run a command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, path: Path) -> None:
        """Return the window as a PNG."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot", None)))

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console since the last call."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def _act(self, source: dict[str, object]) -> None:
        self._call("POST", "/actions", {"actions": [source]})

    def _port(self, folder: Path) -> int:
        end = time.monotonic() + _WAIT
        while True:
            if found := re.search(rb"started successfully on port (\d+)", (folder / "driver.log").read_bytes()):
                return int(found[1])
            assert time.monotonic() < end, (folder / "driver.log").read_text()
            assert self._driver.poll() is None, (folder / "driver.log").read_text()
            time.sleep(0.02)

    def _call(self, method: str, path: str, body: object) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=2 * _WAIT) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as problem:
            raise AssertionError(json.load(problem)["value"]["message"]) from None
