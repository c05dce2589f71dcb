#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A provider of the legacy binary protocol like many old scripts: it writes plain frames over Python's own TLS, and
only reads on request.

Each line of standard input is a step as a JSON object; the result of each is a JSON object in a line of standard
output. The steps:

    {"do": "connect", "after": 0.5}
        opens a connection after this number of seconds; the previous one stays open
    {"do": "write", "command": 0 or 1, "numbers": [...], "lengths": {"2": 3000}, "probe": 11}
        writes one notification for each number, and an optional probe, in one call
    {"do": "pace", "command": 0 or 1, "numbers": [...], "interval": 0.05}
        writes one notification at each interval, until a write fails
    {"do": "read", "count": 6}
        reads this number of bytes, or up to the end
    {"do": "reset", "timeout": 2}
        waits for a reset without reading
    {"do": "close"}
        closes the socket without close_notify, like a process that ends
"""

import argparse
import json
import select
import socket
import ssl
import struct
import sys
import time

TIMEOUT = 20.0


def token(number):
    return b"\xb0" * 28 + struct.pack(">I", number)


def payload(number, length):
    text = '{"aps":{"alert":"number %d%s"}}'
    padding = 0 if length is None else length - len(text % (number, ""))
    return (text % (number, " " * padding)).encode("ascii")


def frame(command, number, length=None):
    body = payload(number, length)
    fields = struct.pack(">H", 32) + token(number) + struct.pack(">H", len(body)) + body
    return b"\x00" + fields if command == 0 else struct.pack(">BII", 1, number, 0) + fields


def probe(identifier):
    return struct.pack(">BIIHH", 1, identifier, 0, 0, 0)


class Provider:
    def __init__(self, arguments):
        self.port = arguments.port
        self.context = ssl.create_default_context(cafile=arguments.trust)
        self.context.load_cert_chain(arguments.identity)
        self.connections = []

    @property
    def connection(self):
        return self.connections[-1]

    def connect(self, step):
        time.sleep(step["after"])
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.append(self.context.wrap_socket(plain, server_hostname="localhost"))
        return {}

    def write(self, step):
        lengths = step.get("lengths", {})
        frames = [frame(step["command"], number, lengths.get(str(number))) for number in step["numbers"]]
        if "probe" in step:
            frames.append(probe(step["probe"]))
        self.connection.sendall(b"".join(frames))
        return {"written": step["numbers"]}

    def pace(self, step):
        written, began = [], time.monotonic()
        for number in step["numbers"]:
            try:
                self.connection.sendall(frame(step["command"], number))
            except OSError as error:
                seconds = time.monotonic() - began
                return {"written": written, "failure": type(error).__name__, "seconds": seconds}
            written.append(number)
            time.sleep(step["interval"])
        return {"written": written}

    def read(self, step):
        received = b""
        while len(received) < step["count"]:
            try:
                piece = self.connection.recv(step["count"] - len(received))
            except OSError as error:
                return {"bytes": received.hex(), "failure": type(error).__name__}
            if not piece:
                break
            received += piece
        return {"bytes": received.hex()}

    def reset(self, step):
        # poll() reports errors even if no event is requested. A half-close by the gateway is not an error.
        poll, began = select.poll(), time.monotonic()
        poll.register(self.connection, 0)
        if not poll.poll(step["timeout"] * 1000):
            return {}
        return {"seconds": time.monotonic() - began}

    def close(self, _):
        self.connection.close()
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--identity", required=True, help="PEM file with certificate and key")
    parser.add_argument("--trust", required=True, help="PEM file with the authority")
    provider = Provider(parser.parse_args())
    steps = {name: getattr(provider, name) for name in ("connect", "write", "pace", "read", "reset", "close")}
    for line in sys.stdin:
        step = json.loads(line)
        try:
            answer = steps[step["do"]](step)
        except OSError as error:
            answer = {"failure": type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
