"""A real browser for tests: Chromium, through chromedriver's WebDriver protocol."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AVAILABLE = bool(CHROMIUM and DRIVER)
_SWITCHES = [
    "headless",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
    "disable-dev-shm-usage",
    "force-color-profile=srgb",
]
# Nothing of these tests should take longer, on however busy a machine.
_SECONDS = 120


class Browser:
    """One window; use it in a ``with`` statement."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.size = (width, height)

    def __enter__(self) -> Browser:
        assert CHROMIUM and DRIVER
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        self.driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.driver.stdout is not None
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.address = f"http://127.0.0.1:{found[1]}"
                break
        switches = [f"--{name}" for name in [*_SWITCHES, f"user-data-dir={self.profile}"]]
        options = {"binary": CHROMIUM, "args": switches}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 1000 * _SECONDS},
        }
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.address += f"/session/{answer['sessionId']}"
        self.resize(*self.size)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.communicate()
            shutil.rmtree(self.profile, ignore_errors=True)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, method=method)
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)["value"]

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def open(self, page: Path | str) -> None:
        url = page if isinstance(page, str) else page.resolve().as_uri()
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        script = (
            "const done = arguments[0]; const end = Date.now() + 90000; (function ask() {"
            f"if ({condition}) done(true); else if (Date.now() > end) done(false);"
            "else setTimeout(ask, 20); })();"
        )
        met = self._call("POST", "/execute/async", {"script": script, "args": []})
        assert met, f"never true: {condition}"

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.devtools("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.devtools(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **({"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}),
            )

    def errors(self) -> list[str]:
        """What has gone wrong on the page since the last time."""
        lines = self._call("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] == "SEVERE"]

    def barriers(self) -> list[str]:
        """What axe-core finds that keeps somebody from using the page."""
        package = find_spec("axe_core_python")
        assert package is not None and package.submodule_search_locations
        self.run((Path(package.submodule_search_locations[0]) / "axe.min.js").read_text())
        found = self._call(
            "POST",
            "/execute/async",
            {"script": "axe.run().then((found) => arguments[0](found.violations))", "args": []},
        )
        return [f"{one['impact']}: {one['help']} ({len(one['nodes'])} nodes)" for one in found]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        taken = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))
