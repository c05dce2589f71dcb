#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how `apns-legacy simulator` handles requests on an HTTP/2 connection that ends, with the h2 package.

A request without a response must not be in the record, since the client sends it again. The environment variable
APNS_LEGACY contains the path of the program.
"""

import socket
import ssl
import time
import unittest

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from simulator_process import DEADLINE, SharedSimulatorTests

TOKEN = "ab" * 32


class Client:
    """A connection whose frames are not checked before they are sent."""

    def __init__(self, simulator):
        context = ssl.create_default_context(cafile=simulator.folder + "/authority.pem")
        context.load_cert_chain(simulator.folder + "/provider.pem", simulator.folder + "/provider.key.pem")
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", simulator.ready["http2_port"]), timeout=DEADLINE)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        configuration = h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.connection = h2.connection.H2Connection(configuration)
        self.connection.initiate_connection()
        self.statuses = {}
        self.farewell = None
        self.unread = b""
        self.is_over = False
        self.flush()

    def flush(self):
        try:
            self.socket.sendall(self.connection.data_to_send())
        except OSError:
            self.is_over = True

    def send(self, *headers, body=b'{"aps":{}}'):
        if self.farewell or self.is_over:
            # The h2 package sends nothing more.
            return 0
        stream = self.connection.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost")]
        head += [(":path", "/3/device/" + TOKEN), ("apns-topic", "com.example.app"), *headers]
        self.connection.send_headers(stream, head)
        body = memoryview(body)
        while body:
            count = min(len(body), self.connection.local_flow_control_window(stream), 16384)
            if count == 0:
                self.flush()
                self.read()
                if self.is_over or stream in self.statuses:
                    return stream
                continue
            self.connection.send_data(stream, bytes(body[:count]))
            body = body[count:]
        self.connection.end_stream(stream)
        return stream

    def read(self):
        try:
            data = self.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return
        self.unread += data
        while len(self.unread) >= 9 and not self.is_over:
            # One frame at a time, since an error would hide the events of earlier frames.
            count = 9 + int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < count:
                break
            frame, self.unread = self.unread[:count], self.unread[count:]
            try:
                self.take(self.connection.receive_data(frame))
            except h2.exceptions.ProtocolError:
                # The h2 package ends a connection with GOAWAY.
                assert self.farewell
                self.is_over = True
        self.flush()

    def take(self, events):
        for event in events:
            if isinstance(event, h2.events.ResponseReceived):
                self.statuses[event.stream_id] = int(dict(event.headers)[":status"])
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.farewell = event

    def read_until(self, condition):
        deadline = time.monotonic() + DEADLINE
        while not condition() and not self.is_over and time.monotonic() < deadline:
            self.read()

    def read_to_the_end(self):
        self.read_until(lambda: False)
        self.close()

    def close(self):
        self.socket.close()


class EndingTests(SharedSimulatorTests):
    def accepted(self):
        """The numbers of the streams that are recorded as accepted, of the only connection."""
        notifications = self.simulator.get("/notifications?outcome=accepted&limit=1000")["notifications"]
        return sorted(2 * each["notification"] - 1 for each in notifications)

    def plan(self, effect, at=None, report=None):
        fault = {"effect": effect, "listener": "http2", "at": at or {"notification": 2}, "report": report or {}}
        self.simulator.post("/faults", fault)

    def told(self, client):
        return sorted(stream for stream, status in client.statuses.items() if status == 200)

    def test_requests_after_a_malformed_one_are_answered_or_not_accepted(self):
        for header in [("te", "gzip"), ("connection", "close"), ("content-length", "3"), ("Upper", "case")]:
            with self.subTest(header=header):
                self.simulator.post("/reset")
                client = Client(self.simulator)
                first = [client.send() for _ in range(3)]
                client.flush()
                client.read_until(lambda: len(client.statuses) == 3)
                client.send(header)
                client.flush()
                for _ in range(3):
                    client.send()
                client.flush()
                client.read_to_the_end()
                self.assertEqual(self.told(client)[:3], first)
                self.assertEqual(self.accepted(), self.told(client))
                # GOAWAY reports the requests without an answer.
                self.assertIsNotNone(client.farewell)

    endings = [
        ({"name": "closeBefore"}, []),
        ({"name": "closeAfter"}, [3]),
        ({"name": "goAway", "reason": "Shutdown"}, []),
    ]

    def test_a_connection_that_a_fault_ends_accepts_nothing_more(self):
        for effect, taken in self.endings:
            for delay in [0, 200]:
                with self.subTest(effect=effect, delay=delay):
                    self.simulator.post("/reset")
                    self.plan(effect, report={"delayMilliseconds": delay})
                    client = Client(self.simulator)
                    for _ in range(4):
                        client.send()
                    client.flush()
                    client.read_until(lambda: len(client.statuses) == 1)
                    for _ in range(3):
                        client.send()
                    client.flush()
                    client.read_to_the_end()
                    self.assertEqual(self.told(client), [1])
                    self.assertEqual(self.accepted(), [1, *taken])
                    if effect["name"] == "goAway":
                        self.assertEqual(client.farewell.last_stream_id, 1)

    def test_requests_after_the_last_stream_of_goaway_are_not_accepted(self):
        self.plan({"name": "delay", "milliseconds": 300}, at={"notification": 2})
        self.plan({"name": "goAway", "reason": "Shutdown"}, at={"notification": 1}, report={"delayMilliseconds": 50})
        client = Client(self.simulator)
        client.send()
        client.send()
        client.flush()
        client.read_to_the_end()
        self.assertEqual((client.statuses, self.accepted()), ({}, []))

    def test_a_body_of_any_length_is_answered(self):
        client = Client(self.simulator)
        lengths = [5_121, 65_535, 65_536, 200_000, 3_000_000]
        for length in lengths:
            stream = client.send(body=b"x" * length)
            client.flush()
            client.read_until(lambda: stream in client.statuses)
            self.assertEqual(client.statuses[stream], 413, length)
        notifications = self.simulator.get("/notifications?outcome=rejected")["notifications"]
        self.assertEqual(sorted(each["payloadByteCount"] for each in notifications), lengths)
        # An endless body ends the connection.
        client.send(body=b"x" * 10_000_000)
        client.read_until(lambda: len(client.statuses) > len(lengths))
        self.assertEqual(len(client.statuses), len(lengths) + 1)
        client.close()


if __name__ == "__main__":
    unittest.main()
