# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, driven through the DevTools protocol over a WebSocket."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

from websockets.sync.client import connect

START_SECONDS_MAX = 20
ANSWER_SECONDS_MAX = 30
WAIT_SECONDS_MAX = 10
# The executables, since Debian's command for the first is a shell script, which the browser would outlive.
EXECUTABLES = (
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/chromium",
    "/opt/google/chrome/chrome",
)


class PageError(Exception):
    """A script of the test threw an exception in the page."""


class Browser:
    """A browser with one page. Its console messages are in `complaints`."""

    def __init__(self, width=1280, height=800, options=()):
        executable = next((path for path in EXECUTABLES if os.access(path, os.X_OK)), None)
        if executable is None:
            raise SystemExit(f"install chromium-headless-shell; there is none of {', '.join(EXECUTABLES)}")
        self._profile = tempfile.mkdtemp(prefix="apns-legacy-browser-")
        # It ends with this process in any case, and makes no DNS requests.
        command = [
            "setpriv", "--pdeathsig", "KILL", executable, "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
            "--disable-component-update",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1",
            "--remote-debugging-port=0", f"--user-data-dir={self._profile}", f"--window-size={width},{height}",
            *options, "about:blank",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.complaints = []
        self.requested = []
        self._number = 0
        self._session = None
        self._socket = connect(self._address(), max_size=None, compression=None, open_timeout=START_SECONDS_MAX)
        target = next(each for each in self._send("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self._send("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.call("Audits.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def _address(self):
        """Reads the port from the file in the browser's folder."""
        file = os.path.join(self._profile, "DevToolsActivePort")
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with open(file, encoding="ascii") as text:
                    lines = text.read().splitlines()
            except FileNotFoundError:
                lines = []
            if len(lines) >= 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.02)
        raise SystemExit(f"the browser does not start; its exit code is {self._process.poll()}")

    def _send(self, method, parameters=None):
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters or {}}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            answer = json.loads(self._socket.recv(timeout=max(0.01, deadline - time.monotonic())))
            if answer.get("id") == number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._take(answer)

    def _take(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(each.get("value", each.get("description"))) for each in
                                            parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Audits.issueAdded":
            issue = parameters["issue"]
            if issue["code"] == "ContentSecurityPolicyIssue":
                self.complaints.append(json.dumps(issue["details"]))
        elif method == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])

    def call(self, method, **parameters):
        """Calls a method of the DevTools protocol."""
        return self._send(method, parameters)

    def evaluate(self, expression):
        """The value of an expression in the page; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def wait_for(self, condition, what=None, seconds=WAIT_SECONDS_MAX):
        """Waits until an expression in the page is true, and returns its value and how long that took."""
        began = time.monotonic()
        deadline = began + seconds
        while True:
            value = self.evaluate(f"""(() => {{
                try {{
                    const value = {condition};
                    return value instanceof Node ? true : value;
                }} catch {{
                    return null;
                }}
            }})()""")
            if value:
                return value, time.monotonic() - began
            if time.monotonic() > deadline:
                shown = self.evaluate("document.body.innerText.slice(0, 2000)")
                raise AssertionError(f"not within {seconds} s: {what or condition}; the page shows: {shown}")
            time.sleep(0.02)

    def resize(self, width, height, scale=1):
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, **features):
        """Sets media features, such as prefers_color_scheme="dark"."""
        values = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=values)

    KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""),
            "Home": (36, ""), "End": (35, ""), "PageDown": (34, ""), " ": (32, " ")}

    def press(self, key, shift=False):
        code, text = self.KEYS.get(key) or (ord(key.upper()), key)
        event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector, meanwhile=None):
        """Clicks in the middle of an element; `meanwhile` is called while it is pressed."""
        place, _ = self.wait_for(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{block: "nearest"}});
            const box = node.getBoundingClientRect();
            return box.width > 0 && [box.x + box.width / 2, box.y + box.height / 2];
        }})()""", f"{selector} to click")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
            if kind == "mousePressed" and meanwhile:
                meanwhile()

    def accessibility_nodes(self):
        """Returns the accessibility tree as a list. The browser does not keep it up to date, since that costs time."""
        self.call("Accessibility.enable")
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        self.call("Accessibility.disable")
        return [node for node in nodes if not node.get("ignored")]

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
