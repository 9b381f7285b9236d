"""A real Chromium, driven through the W3C's WebDriver protocol, which its own driver speaks: JSON over HTTP."""

import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
WAIT = 30.0
# seconds that something on a page may take, on a machine that is busy with other tests

needs_chromium = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="no Chromium with its driver is here: apt-get install --no-install-recommends chromium chromium-driver",
)


class Browser:
    """One window."""

    def __init__(self, address):
        self.address = address
        options = {
            "binary": BROWSER,
            "args": ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"],
        }
        logging = {"browser": "ALL", "performance": "ALL"}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logging}
        self.session = ""
        answer = self.send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{answer['sessionId']}"

    def send(self, method, path, content=None):
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.address + self.session + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.loads(error.read())["value"]["message"]) from None

    def devtools(self, command, **parameters):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height=900):
        """The page's own width, which may be smaller than a window can be."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def media(self, **features):
        """What a person prefers; nothing moves, so that a click hits what it was meant for."""
        features = {"prefers_reduced_motion": "reduce", **features}
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", features=listed)

    def open(self, url):
        self.send("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What a function's body returns, run in the page."""
        return self.send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def click(self, selector):
        found = self.send("POST", "/element", {"using": "css selector", "value": selector})
        self.send("POST", f"/element/{next(iter(found.values()))}/click", {})

    def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def choose(self, selector, value):
        """Another option of a list, as if somebody had chosen it."""
        self.run(
            "const chosen = document.querySelector(arguments[0]); chosen.value = arguments[1];"
            "for (const kind of ['input', 'change']) chosen.dispatchEvent(new Event(kind, {bubbles: true}))",
            selector,
            value,
        )

    def until(self, script, *arguments):
        """Waits for a script to return what is true."""
        end = time.monotonic() + WAIT
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < end, f"still not: {script}"
            time.sleep(0.1)
        return found

    def console(self):
        return [entry["message"] for entry in self.send("POST", "/se/log", {"type": "browser"})]

    def requests(self):
        """Every address that was asked for since the last call."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.send("POST", "/se/log", {"type": "performance"})
        ]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def screenshot(self):
        return self.send("GET", "/screenshot")


@contextmanager
def chromium():
    """A browser and its driver; both end with the block."""
    with tempfile.TemporaryFile("w+") as log:
        driver = subprocess.Popen([DRIVER, "--port=0"], stdout=log, stderr=subprocess.STDOUT)
        try:
            end, found = time.monotonic() + WAIT, None
            while found is None:
                assert time.monotonic() < end, "the driver does not start"
                time.sleep(0.1)
                log.seek(0)
                found = re.search(r"started successfully on port (\d+)", log.read())
            browser = Browser(f"http://127.0.0.1:{found[1]}")
            try:
                yield browser
            finally:
                browser.send("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(20)
