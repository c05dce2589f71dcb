# SPDX-License-Identifier: Apache-2.0
"""What the checks of the page use of a running simulator: its listeners, as a provider does, and its control API."""

import json
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request

SECONDS_MAX = 20
# How many notifications the control API returns at once.
COUNT_MAX = 1000


class Simulator:
    """A simulator that runs already: its ports, and the folder with its certificates."""

    def __init__(self, control, folder, gateway_port, http2_port):
        self.control = control.rstrip("/")
        self.folder = folder
        self.gateway_port = gateway_port
        self.http2_port = http2_port

    def request(self, method, path, body=None):
        """Asks the control API; returns the answer as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, data=data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
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
        last = self.request("GET", "/notifications?limit=1&outcome=any")["lastNumber"]
        context = ssl.create_default_context(cafile=f"{self.folder}/authority.pem")
        context.load_cert_chain(f"{self.folder}/provider.pem", f"{self.folder}/provider.key.pem")
        with socket.create_connection(("127.0.0.1", self.gateway_port), SECONDS_MAX) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as encrypted:
                expiry = int(time.time()) + 3600
                frames = [frame(number, expiry, token, payload)
                          for number, (token, payload) in enumerate(notifications, 1)]
                encrypted.sendall(b"".join(frames))
                count = min(len(notifications), COUNT_MAX)
                query = f"outcome=any&limit={count}&count={count}&after={last}&wait={SECONDS_MAX}s"
                return self.request("GET", f"/notifications?{query}")["notifications"]

    def push_over_http2(self, token, payload, topic):
        """Sends one notification over HTTP/2 by curl; returns the status."""
        identity = ["--cert", f"{self.folder}/provider.pem", "--key", f"{self.folder}/provider.key.pem"]
        answer = subprocess.run(
            ["curl", "--silent", "--show-error", "--http2", "--max-time", str(SECONDS_MAX), *identity, "--cacert",
             f"{self.folder}/authority.pem", "--header", f"apns-topic: {topic}", "--header", "apns-push-type: alert",
             "--data-binary", "@-", "--output", "/dev/null", "--write-out", "%{http_code}",
             f"https://localhost:{self.http2_port}/3/device/{token}"],
            input=payload, stdout=subprocess.PIPE, check=True,
        )
        return int(answer.stdout)


def frame(identifier, expiry, token, payload):
    """One notification of command 1."""
    device, data = bytes.fromhex(token), payload if isinstance(payload, bytes) else payload.encode()
    head = struct.pack(">BIIH", 1, identifier, expiry, len(device))
    return head + device + struct.pack(">H", len(data)) + data


def alert(text, **aps):
    """A payload with an alert."""
    return json.dumps({"aps": {"alert": text, **aps}}, ensure_ascii=False)
