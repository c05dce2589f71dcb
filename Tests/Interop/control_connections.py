#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the connections to the control API of `apns-legacy simulator`: unusual requests, and clients that do not read.

The environment variable APNS_LEGACY contains the path of the program.
"""

import gzip
import http.client
import json
import time
import unittest

from simulator_process import DEADLINE, Base, Events, SharedSimulatorTests, Simulator, status_of

# What Java's HttpClient sends by default.
UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"


def request(method="GET", path="/status", headers="", body=""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n{body}"


def answers(connection, count):
    """Reads responses; returns their statuses and JSON."""
    found = []
    for _ in range(count):
        response = http.client.HTTPResponse(connection)
        response.begin()
        found.append((response.status, json.loads(response.read() or b"null")))
    return found


class RequestTests(SharedSimulatorTests):
    def test_a_connection_is_usable_after_a_request_to_upgrade(self):
        body = '{"topic":"com.example.app"}'
        upgrades = [
            request(headers=UPGRADE), request("POST", "/devices", UPGRADE, body), request(headers=UPGRADE),
            request(headers="connection: foo,upgrade\r\nUPGRADE: websocket\r\n"), request("CONNECT", "localhost:1"),
            request("POST", "/devices", UPGRADE + "Content-Type: application/json\r\n", body), request(),
        ]
        statuses = [200, 201, 200, 200, 404, 201, 200]
        with self.simulator.raw("") as connection:
            for text, status in zip(upgrades, statuses):
                connection.sendall(text.encode())
                self.assertEqual(answers(connection, 1)[0][0], status, text)
        # All at once.
        with self.simulator.raw("".join(upgrades)) as connection:
            connection.settimeout(DEADLINE)
            reader = connection.makefile("rb")
            for status in statuses:
                self.assertEqual(int(reader.readline().split()[1]), status)
                length = 0
                while line := reader.readline().strip():
                    name, _, value = line.lower().partition(b": ")
                    length = int(value) if name == b"content-length" else length
                reader.read(length)

    def test_a_malformed_chunk_is_answered_with_400(self):
        head = "POST /devices HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunks in ["zz\r\n{}\r\n0\r\n\r\n", "5\r\n{}\r\n0\r\n\r\n", "-1\r\n", "1\r\n{\r\nx\r\n",
                       "ffffffffffffffffff\r\n"]:
            with self.simulator.raw(head + chunks) as connection:
                status, answer = answers(connection, 1)[0]
                self.assertEqual((status, list(answer)), (400, ["error"]), chunks)
                self.assertEqual(connection.recv(1), b"")
        self.assertEqual(self.simulator.get("/devices")["devices"], [])

    def test_long_responses_are_compressed_if_the_client_accepts_it(self):
        self.simulator.push(*['{"aps":{"alert":"%s"}}' % ("x" * 1500)] * 100)
        self.simulator.get("/notifications?wait=10s&count=100")
        for path in ["/page/app.js", "/notifications?limit=1000", "/notifications?limit=1"]:
            plain = self.simulator.request(path)
            self.assertNotIn("Content-Encoding", plain[1])
            for accept, is_compressed in [("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0, br", False)]:
                connection = http.client.HTTPConnection("127.0.0.1", self.simulator.port, timeout=DEADLINE)
                connection.request("GET", path, headers={"Accept-Encoding": accept})
                response = connection.getresponse()
                data = response.read()
                self.assertEqual(response.headers.get("Content-Encoding"), "gzip" if is_compressed else None)
                self.assertEqual(response.headers["Vary"], "Accept-Encoding")
                text = (gzip.decompress(data) if is_compressed else data).decode()
                self.assertEqual(json.loads(text) if "notif" in path else text, plain[2])
                if is_compressed and path != "/notifications?limit=1":
                    self.assertLess(len(data), len(text) / 3)
                connection.close()
        events = Events(self.simulator, {"Accept-Encoding": "gzip"})
        self.assertIsNone(events.response.headers.get("Content-Encoding"))
        events.close()


class SlowClientTests(Base):
    def memory(self, simulator):
        with open(f"/proc/{simulator.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) >> 10

    def test_clients_that_do_not_read_use_little_memory_and_delay_nobody(self):
        with Simulator() as simulator:
            simulator.push(*['{"aps":{"alert":"%s"}}' % ("x" * 1900)] * 300)
            simulator.get("/notifications?wait=10s&count=300&limit=1")
            before = self.memory(simulator)
            clients = [simulator.raw(request(path="/notifications?limit=1000") * 3) for _ in range(40)]
            clients += [simulator.raw(request(path="/notifications?limit=1000", headers="Accept-Encoding: gzip\r\n"))
                        for _ in range(20)]
            start = time.monotonic()
            for _ in range(20):
                simulator.get("/status")
            self.assertLess(time.monotonic() - start, 5)
            self.assertLess(self.memory(simulator) - before, 60)
            # A client that reads late still receives everything.
            found = answers(clients[0], 1)
            self.assertEqual([len(each[1]["notifications"]) for each in found], [300])
            # Nor do they delay a stop.
            start = time.monotonic()
            simulator.end()
            self.assertLess(time.monotonic() - start, 10)
            for client in clients:
                client.close()

    def test_incomplete_heads_do_not_keep_others_out(self):
        with Simulator() as simulator:
            begun = [simulator.raw("GET /status HTTP/1.1\r\nHost: loc") for _ in range(520)]
            self.assertEqual(simulator.get("/status")["counts"]["received"], 0)
            # The longest waiting ones were closed.
            self.assertEqual(begun[0].recv(1), b"")
            begun[-1].sendall(b"alhost\r\n\r\n")
            self.assertEqual(status_of(begun[-1]), 200)
            for connection in begun:
                connection.close()


if __name__ == "__main__":
    unittest.main()
