# SPDX-License-Identifier: Apache-2.0
"""A client of a running simulator: its listeners, like a provider, and its control API."""

import contextlib
import json
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request

SECONDS_MAX = 20
# The maximum number of notifications in a response of the control API.
COUNT_MAX = 1000


class Simulator:
    """A running simulator: its ports, and the folder with its certificates."""

    def __init__(self, control, folder, gateway_port, http2_port, token=None):
        self.control = control.rstrip("/")
        self.folder = folder
        self.gateway_port = gateway_port
        self.http2_port = http2_port
        self.token = token

    @classmethod
    @contextlib.contextmanager
    def started(cls, program, folder, *options, control_port=0, token=None):
        """A new simulator, which ends with the block."""
        command = [program, "simulator", "--folder", folder, "--control-port", str(control_port), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                ready = json.loads(process.stdout.readline())
                control = f"http://127.0.0.1:{ready['control_port']}"
                yield cls(control, folder, ready["gateway_port"], ready["http2_port"], token)
            finally:
                process.terminate()

    def request(self, method, path, body=None):
        """Sends a request to the control API; returns the response as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, data=data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=2 * SECONDS_MAX) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text else None

    def add_device(self, topic, **keys):
        """Registers a device with one app; returns its identifier and the token of the app."""
        device = self.request("POST", "/devices", {"topic": topic, **keys})
        return device["identifier"], device["apps"][0]["token"]

    def push(self, *notifications):
        """Sends pairs of a token and a payload over one connection of the binary protocol, and waits for them."""
        expiry = int(time.time()) + 3600
        frames = [frame(number, expiry, token, payload) for number, (token, payload) in enumerate(notifications, 1)]
        return self.send(b"".join(frames), len(notifications))

    def connect(self):
        """A connection to the gateway."""
        context = ssl.create_default_context(cafile=f"{self.folder}/authority.pem")
        context.load_cert_chain(f"{self.folder}/provider.pem", f"{self.folder}/provider.key.pem")
        plain = socket.create_connection(("127.0.0.1", self.gateway_port), SECONDS_MAX)
        return context.wrap_socket(plain, server_hostname="localhost")

    def send(self, data, count=1):
        """Sends bytes to the gateway, and waits until a number of notifications are in the record."""
        last = self.request("GET", "/notifications?limit=1&outcome=any")["lastNumber"]
        with self.connect() as encrypted:
            encrypted.sendall(data)
            count = min(count, COUNT_MAX)
            query = f"outcome=any&limit={count}&count={count}&after={last}&wait={SECONDS_MAX}s"
            return self.request("GET", f"/notifications?{query}")["notifications"]

    def push_over_http2(self, token, payload, topic, *headers):
        """Sends one notification over HTTP/2 with curl; returns the status."""
        identity = ["--cert", f"{self.folder}/provider.pem", "--key", f"{self.folder}/provider.key.pem"]
        answer = subprocess.run(
            ["curl", "--silent", "--show-error", "--http2", "--max-time", str(SECONDS_MAX), *identity, "--cacert",
             f"{self.folder}/authority.pem", "--header", f"apns-topic: {topic}",
             *(part for header in headers or ["apns-push-type: alert"] for part in ("--header", header)),
             "--data-binary", "@-", "--output", "/dev/null", "--write-out", "%{http_code}",
             f"https://localhost:{self.http2_port}/3/device/{token}"],
            input=payload, stdout=subprocess.PIPE, check=True,
        )
        return int(answer.stdout)


def without_network(complaints):
    """Matches the browser's own messages about an unreachable address."""
    return [each for each in complaints if "ERR_" not in each]


def frame(identifier, expiry, token, payload):
    """A notification of command 1."""
    device, data = bytes.fromhex(token), payload if isinstance(payload, bytes) else payload.encode()
    head = struct.pack(">BIIH", 1, identifier, expiry, len(device))
    return head + device + struct.pack(">H", len(data)) + data


def alert(text, **aps):
    """A payload with an alert."""
    return json.dumps({"aps": {"alert": text, **aps}}, ensure_ascii=False)
