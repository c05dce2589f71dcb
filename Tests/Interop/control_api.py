#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the control API of `apns-legacy simulator` as a program in another language uses it.

The environment variable APNS_LEGACY contains the path of the program.
"""

import http.client
import json
import select
import socket
import ssl
import struct
import threading
import time
import unittest
import urllib.error

from simulator_process import DEADLINE, Base, Events, SharedSimulatorTests, Simulator, frame, status_of


class ReadingTests(Base):
    @classmethod
    def setUpClass(cls):
        cls.simulator = Simulator()
        cls.addClassCleanup(cls.simulator.__exit__)
        cls.simulator.push(
            '{"aps":{"alert":{"title":"Hello","body":"W\\u00f6rld"},"badge":3,"sound":"default"},"id":1}',
            '{"aps":{"content-available":1}}',
            '{ "aps" : {\n"alert":"second  line" } }',
        )
        cls.simulator.push('{"aps":{"alert":"other"}}', token="cd" * 32, identifier=9)
        cls.simulator.get("/notifications?wait=10s&count=4")

    def test_the_status_counts(self):
        status = self.simulator.get("/status")
        self.assertEqual(status["environment"], "sandbox")
        self.assertEqual(status["ports"]["binary"], self.simulator.ready["gateway_port"])
        self.assertEqual(status["counts"]["accepted"], 4)
        self.assertEqual(status["heldCount"], 4)

    def test_a_notification_is_shown_completely(self):
        first = self.simulator.get("/notifications")["notifications"][0]
        self.assertEqual(first["number"], 1)
        self.assertEqual(first["token"], "ab" * 32)
        self.assertEqual(first["topic"], "com.example.app")
        self.assertEqual(first["listener"], "binary")
        self.assertEqual(first["outcome"], "accepted")
        self.assertEqual(first["delivery"], "delivered")
        self.assertEqual(first["identifier"], 7)
        self.assertEqual(first["payload"]["aps"]["alert"]["body"], "Wörld")
        self.assertEqual(first["payloadByteCount"], len(first["payloadText"].encode()))
        self.assertEqual(first["payloadProblems"], [])
        preview = {"title": "Hello", "body": "Wörld", "badge": 3, "sound": "default", "isSilent": False}
        self.assertEqual(first["preview"], preview)
        self.assertRegex(first["receivedAt"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ$")
        whole = self.simulator.get("/notifications/1")
        self.assertEqual(whole.pop("frame")["fields"][0], {"name": "command", "offset": 0, "length": 1, "value": 1})
        self.assertEqual(whole, first)

    def test_filters_select_notifications(self):
        def numbers(query):
            return [each["number"] for each in self.simulator.get("/notifications" + query)["notifications"]]

        self.assertEqual(numbers(""), [1, 2, 3, 4])
        self.assertEqual(numbers("?token=" + "CD" * 32), [4])
        self.assertEqual(numbers("?after=1&before=4"), [2, 3])
        self.assertEqual(numbers("?order=newest&limit=2"), [4, 3])
        self.assertEqual(numbers("?text=HELLO"), [1])
        self.assertEqual(numbers("?text=second+%20line"), [3])
        self.assertEqual(numbers("?text=cdcd"), [4])
        self.assertEqual(numbers("?topic=com.example.app"), [1, 2, 3, 4])
        self.assertEqual(numbers("?topic=com.example"), [])
        self.assertEqual(numbers("?listener=http2"), [])
        self.assertEqual(self.simulator.get("/notifications?text=nothing")["lastNumber"], 4)

    def test_invalid_queries_are_reported(self):
        request = self.simulator.request
        self.assertError(request("/notifications?tokn=1"), 400, "tokn", "token, topic")
        self.assertError(request("/notifications?token=1&token=2"), 400, "duplicate")
        self.assertError(request("/notifications?wait=5"), 400, "5s")
        self.assertError(request("/notifications?text=%zz"), 400, "percent")
        self.assertError(request("/notifications/x"), 400, "number")
        self.assertError(request("/notifications/99"), 404, "99")
        self.assertError(request("/nothing"), 404, "/openapi.yaml")
        self.assertError(request("/status", "POST", b"{}"), 405, "GET")
        self.assertError(request("/faults/log", "DELETE"), 405, "supports GET")
        self.assertEqual(request("/status", "POST", b"{}")[1]["Allow"], "GET")
        self.assertError(request("/status?x=1"), 400, "x")
        self.assertError(request("/page/../status"), 404)

    def test_files_are_served_with_their_types_and_every_response_has_security_headers(self):
        for path, content_type in [
            ("/", "text/html; charset=utf-8"),
            ("/page/app.js", "text/javascript; charset=utf-8"),
            ("/page/app.css", "text/css; charset=utf-8"),
            ("/openapi.yaml", "application/yaml"),
            ("/status", "application/json"),
            ("/nothing", "application/json"),
        ]:
            _, headers, text = self.simulator.request(path)
            self.assertEqual(headers["Content-Type"], content_type)
            self.assertTrue(text)
            self.assertIn("default-src 'none'; script-src 'self'", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertNotIn("Access-Control-Allow-Origin", headers)
        status, headers, text = self.simulator.request("/", "HEAD")
        self.assertEqual((status, text), (200, ""))
        self.assertError(self.simulator.request("/status", "OPTIONS"), 405)

    def test_a_wait_that_times_out_reports_what_arrived(self):
        start = time.monotonic()
        answer = self.simulator.request("/notifications?wait=200ms&token=" + "ef" * 32)
        self.assertError(answer, 404, "0 of 1", "accepted 4", "cd" * 32)
        self.assertGreaterEqual(time.monotonic() - start, 0.2)
        answer = self.simulator.request("/notifications?wait=1ms&count=2&token=" + "cd" * 32)
        self.assertError(answer, 404, "1 of 2")

    def test_other_hosts_and_origins_are_refused(self):
        for headers, status in [
            ({"Host": "rebound.example"}, 421),
            ({"Host": "127.0.0.1.rebound.example:%d" % self.simulator.port}, 421),
            ({"Host": ""}, 421),
            ({"Host": "[::1].rebound.example"}, 421),
            ({"Origin": "http://rebound.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://127.0.0.1:1"}, 403),
            ({"Origin": self.simulator.address}, 200),
            ({"Host": "localhost:1"}, 200),
        ]:
            for path in ["/", "/status", "/notifications"]:
                self.assertEqual(self.simulator.request(path, headers=headers)[0], status, (headers, path))
        # Resources that a page of another site loads have no Origin; a link to the page is allowed.
        search = "/notifications?text=secret"
        for site, mode, path, status in [
            ("cross-site", "no-cors", search, 403), ("same-site", "no-cors", search, 403),
            ("cross-site", "navigate", search, 403), ("cross-site", "navigate", "/?view=devices", 200),
            ("cross-site", "no-cors", "/", 403), ("same-origin", "cors", search, 200),
            ("none", "navigate", search, 200),
        ]:
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            self.assertEqual(self.simulator.request(path, headers=headers)[0], status, (headers, path))
        self.assertEqual(status_of(self.simulator.raw("GET /status HTTP/1.0\r\n\r\n")), 421)

    def test_garbage_and_long_headers_end_only_the_connection(self):
        for text in [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
            b"POST /shutdown HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        ]:
            try:
                self.assertIn(status_of(self.simulator.raw(text)), [400, 431, 505, None])
            except ConnectionError:
                pass
        self.assertEqual(self.simulator.get("/status")["heldCount"], 4)


class LiveTests(Base):
    def test_a_wait_ends_as_soon_as_enough_arrived(self):
        with Simulator() as simulator:
            answers = []

            def wait():
                # Longer than this test runs.
                answers.append(simulator.get("/notifications?wait=10m&count=2&token=" + "ab" * 32))

            thread = threading.Thread(target=wait)
            thread.start()
            simulator.push("{}", token="cd" * 32)
            simulator.push("{}", "{}")
            thread.join(DEADLINE)
            self.assertFalse(thread.is_alive())
            self.assertEqual([each["number"] for each in answers[0]["notifications"]], [2, 3])

    def test_events_are_sent_live_and_resume(self):
        with Simulator() as simulator:
            events = Events(simulator)
            self.assertEqual(events.response.headers["Content-Type"], "text/event-stream")
            simulator.push('{"aps":{"alert":"a\\nb"}}', '{\n"aps":{}}')
            first, second = events.next_notification(), events.next_notification()
            self.assertEqual(first["data"], simulator.get("/notifications")["notifications"][0])
            self.assertEqual(second["data"]["payloadText"], '{\n"aps":{}}')
            events.close()
            simulator.push("{}")
            simulator.get("/notifications?wait=10s&count=3")
            resumed = Events(simulator, {"Last-Event-ID": first["id"]})
            self.assertEqual([resumed.next_notification()["data"]["number"] for _ in range(2)], [2, 3])
            resumed.close()

    def test_an_event_of_another_run_is_missed_and_stored_events_follow(self):
        with Simulator() as simulator:
            simulator.push("{}")
            simulator.get("/notifications?wait=10s")
            events = Events(simulator, {"Last-Event-ID": "0"})
            identifier = events.next_notification()["id"]
            events.close()
            self.assertRegex(identifier, r"^[0-9a-f]{16}-[0-9]+$")
            run, _, number = identifier.partition("-")
            for unknown in ["99999", "0123456789abcdef-1", f"{run}-99999", f"{run}-", "x", identifier + "0"]:
                events = Events(simulator, {"Last-Event-ID": unknown})
                first = events.next()
                self.assertEqual((first["event"], first["data"]), ("missed", {}), unknown)
                self.assertEqual(events.next_notification()["data"]["number"], 1)
                events.close()
            # The same without an event in between: a stream begins with its position.
            events = Events(simulator)
            events.close()
            self.assertEqual(simulator.request("/events?after=" + identifier, "HEAD")[0], 200)
            self.assertError(simulator.request("/events?after=5"), 400, "after")

    def test_a_client_that_never_reads_uses_no_memory_and_is_told_what_it_missed(self):
        with Simulator() as simulator:
            connections = []
            for _ in range(20):
                connection = socket.socket()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", simulator.port))
                connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                connection.recv(10)
                connections.append(connection)
            payload = json.dumps({"aps": {"alert": "x" * 1900}})
            with simulator.gateway() as gateway:
                for _ in range(150):
                    gateway.sendall(frame(payload) * 100)
                gateway.unwrap()
            self.assertEqual(simulator.get("/notifications?wait=10s&after=14999")["lastNumber"], 15000)
            # 15,000 events for 20 readers would be 1.2 GB.
            with open(f"/proc/{simulator.process.pid}/status") as status:
                peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
            self.assertLess(peak, 400_000)
            connections[0].settimeout(DEADLINE)
            text = b""
            while b"event: missed" not in text and (portion := connections[0].recv(1 << 20)):
                text += portion
            self.assertIn(b"event: missed", text)
            for connection in connections:
                connection.close()
            self.assertEqual(simulator.end(), 0)

    def test_waits_and_connections_are_limited(self):
        with Simulator() as simulator:
            request = b"GET /notifications?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n"
            waiting = [simulator.raw(request) for _ in range(300)]
            status = readable(waiting, 300 - 256)
            self.assertEqual(len(status), 300 - 256)
            for connection in status:
                self.assertEqual(status_of(connection), 503)
            self.assertError(simulator.request("/notifications?wait=1s"), 503, "256")
            # Other requests are still answered, until there are too many connections.
            self.assertEqual(simulator.get("/status")["heldCount"], 0)
            more = [simulator.raw("") for _ in range(400)]
            self.assertGreater(len(readable(more, 51)), 50)
            for connection in waiting + more:
                connection.close()
            # The limit is free again.
            deadline = time.monotonic() + DEADLINE
            while True:
                try:
                    simulator.push("{}")
                    self.assertEqual(simulator.request("/notifications?wait=1s")[0], 200)
                    break
                except (ConnectionError, http.client.HTTPException, urllib.error.URLError):
                    self.assertLess(time.monotonic(), deadline)

    def test_a_slow_body_ends_the_connection_before_and_after_a_response(self):
        with Simulator() as simulator:
            head = "POST /devices HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\n"
            start = time.monotonic()
            slow = simulator.raw(head % "localhost" + "1", timeout=30)
            refused = simulator.raw(head % "rebound.example", timeout=30)
            self.assertIn(b" 421 ", refused.recv(1000))
            for connection in [slow, refused]:
                while connection.recv(1000):
                    pass
                self.assertLess(time.monotonic() - start, 20)
                connection.close()

    def test_it_ends_on_sigterm_and_on_request_with_connected_clients(self):
        for end in ["SIGTERM", "POST"]:
            with Simulator() as simulator:
                events = Events(simulator)
                waiting = simulator.raw("GET /notifications?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
                idle = simulator.raw("")
                simulator.push("{}", token="cd" * 32)
                self.assertEqual(events.next_notification()["data"]["number"], 1)
                start = time.monotonic()
                if end == "POST":
                    self.assertEqual(simulator.request("/shutdown", "POST")[0], 202)
                    code = simulator.process.wait(DEADLINE)
                else:
                    code = simulator.end()
                self.assertEqual(code, 0)
                self.assertLess(time.monotonic() - start, 6)
                # The stream ends in order, not in the middle of a chunk.
                while events.next() is not None:
                    pass
                idle.close()
                waiting.close()


def readable(connections, count):
    """The connections with a response or an end: `count` of them, and those that follow immediately."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    ready = set()
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        # Connections beyond the expected number would arrive with the others.
        descriptors = {descriptor for descriptor, _ in poll.poll(1000 if len(ready) < count else 200)}
        if not descriptors and len(ready) >= count:
            break
        for descriptor in descriptors:
            poll.unregister(descriptor)
        ready |= descriptors
    return [connection for connection in connections if connection.fileno() in ready]


class DeviceTests(SharedSimulatorTests):
    # With a device option, all other tokens are unknown.
    options = ["--device", "ab" * 32]

    def test_a_device_is_registered_and_receives_notifications(self):
        simulator = self.simulator
        device = simulator.post("/devices", {"topic": "com.example.app"}, status=201)
        token = device["apps"][0]["token"]
        self.assertEqual(device["isOnline"], True)
        self.assertEqual(len(token), 64)
        simulator.push("{}", token=token)
        found = simulator.get(f"/notifications?wait=10s&token={token}")["notifications"]
        self.assertEqual(found[0]["device"], device["identifier"])
        self.assertEqual(found[0]["delivery"], "delivered")
        self.assertEqual(simulator.get("/devices/" + device["identifier"]), device)
        self.assertEqual(simulator.get("/devices/" + token.upper()), device)
        self.assertIn(device, simulator.get("/devices")["devices"])
        self.assertEqual(simulator.get("/tokens/" + token)["device"], device["identifier"])

    def test_invalid_devices_are_rejected_with_the_reason(self):
        request = self.simulator.request
        for body, status, *words in [
            ({}, 400, "topic"),
            ({"topic": 5}, 400, "topic"),
            ({"topics": "a"}, 400, "topics"),
            ({"topics": ["a", "a"]}, 400, "different"),
            ({"topic": "a", "isonline": True}, 400, "isonline", "isOnline"),
            ({"topic": "a", "token": "xyz"}, 400, "token"),
            ({"topics": ["a", "b"], "token": "ab"}, 400, "one"),
            ({"topic": "a", "token": "ab" * 32}, 409, "another device"),
            ({"topic": "a", "environment": "test"}, 400, "sandbox"),
            ({"topic": "not a topic! <b>"}, 400, "topic", "letters"),
            ({"topics": ["a", "b" * 256]}, 400, "topic"),
            ({"topic": "a", "identifier": "x" * 129}, 400, "identifier", "128"),
            ({"topic": "a", "identifier": "x\ny"}, 400, "identifier"),
            ({"topic": "a", "identifier": "\u202ex"}, 400, "identifier"),
            ([], 400, "object"),
            (b"{", 400, "JSON"),
            (b"[" * 100_000, 400, "JSON"),
            (b" " * ((1 << 20) + 1), 413, "1048576"),
        ]:
            self.assertError(request("/devices", "POST", body), status, *words)
        self.assertError(request("/devices/none"), 404, "none")
        self.assertError(request("/devices/none", "PATCH", {"isOnline": False}), 404)
        self.assertError(request("/tokens/" + "ef" * 32), 404)
        self.assertError(request("/tokens/x"), 400)
        self.assertEqual(len(self.simulator.get("/devices")["devices"]), 1)

    def test_an_offline_device_receives_the_last_notification_when_it_is_online_again(self):
        simulator = self.simulator
        events = Events(simulator)
        device = simulator.post("/devices", {"topics": ["com.example.app", "b"], "identifier": "my phone"})
        path = "/devices/my%20phone"
        self.assertEqual(simulator.request(path, "PATCH", {"isOnline": False})[2]["isOnline"], False)
        token = device["apps"][0]["token"]
        with simulator.gateway() as gateway:
            for text in ["one", "two"]:
                gateway.sendall(frame('{"aps":{"alert":"%s"}}' % text, token, expiry=0x7FFFFFFF))
            gateway.unwrap()
        found = simulator.get("/notifications?wait=10s&count=2")["notifications"]
        self.assertEqual([each["delivery"] for each in found], ["replaced", "stored"])
        self.assertEqual(simulator.get(path)["apps"][0]["storedNotification"], found[1]["number"])
        simulator.request(path, "PATCH", {"isOnline": True})
        number = found[1]["number"]
        self.assertEqual(simulator.get(f"/notifications/{number}")["delivery"], "delivered")
        kinds = set()
        while (event := events.next())["event"] != "delivery" or event["data"]["delivery"] != "delivered":
            kinds.add(event["event"])
        self.assertLessEqual({"device", "notification", "connection"}, kinds)
        events.close()
        simulator.request(path, "DELETE")
        self.assertError(simulator.request(path), 404)

    def test_a_deleted_app_causes_410_and_a_feedback_entry(self):
        simulator = self.simulator
        path = "/devices/" + "ab" * 32 + "/apps/com.example.app"
        self.assertEqual(simulator.curl("ab" * 32)[0], 200)
        device = simulator.request(path + "?at=2026-01-05T10:00:00Z", "DELETE")[2]
        self.assertEqual(device["apps"][0]["isInstalled"], False)
        self.assertEqual(device["apps"][0]["removedAt"], "2026-01-05T10:00:00.000Z")
        self.assertEqual(simulator.curl("ab" * 32), (410, {"reason": "Unregistered", "timestamp": 1767607200000}))
        rejected = simulator.get("/notifications?outcome=rejected")["notifications"]
        self.assertEqual([(each["status"], each["reason"]) for each in rejected], [(410, "Unregistered")])
        self.assertEqual(simulator.get("/feedback")["entries"], [])
        simulator.push("{}")
        simulator.get("/notifications?wait=10s&listener=binary")
        entry = {"token": "ab" * 32, "topic": "com.example.app", "failedAt": "2026-01-05T10:00:00.000Z"}
        self.assertEqual(simulator.get("/feedback")["entries"], [entry])
        simulator.request("/feedback", "DELETE")
        self.assertEqual(simulator.get("/feedback")["entries"], [])
        self.assertEqual(simulator.request(path, "PUT")[2]["apps"][0]["isInstalled"], True)
        self.assertEqual(simulator.curl("ab" * 32)[0], 200)
        self.assertError(simulator.request(path + "x", "DELETE"), 404)
        self.assertEqual(len(simulator.post("/feedback", {"token": "ab" * 32})["entries"]), 1)
        self.assertError(simulator.request("/feedback", "POST", {"token": "ef" * 32}), 404)
        self.assertError(simulator.request("/devices/" + "ab" * 32 + "/apps/not%20a%20topic", "PUT"), 400, "topic")

    def test_no_request_succeeds_without_an_effect(self):
        simulator = self.simulator
        device = simulator.post("/devices", {"topic": "com.example.app", "identifier": "Ann's phone"})
        path = "/devices/Ann's%20phone/apps/"
        # An app of the other environment, which this service does not know.
        simulator.post(path + "other", {"environment": "production"}, "PUT")
        self.assertError(simulator.request(path + "other", "DELETE"), 409, "production", "sandbox")
        # A time requires an installed app.
        simulator.post(path + "com.example.app", None, "DELETE")
        self.assertError(
            simulator.request(path + "com.example.app?at=2026-01-05T10:00:00Z", "DELETE"), 409, "already deleted")
        self.assertEqual(simulator.request(path + "com.example.app", "DELETE")[0], 200)
        token = device["apps"][0]["token"]
        late = {"token": token, "failedAt": "2026-01-05T10:00:00Z"}
        self.assertError(simulator.request("/feedback", "POST", late), 409, "already deleted")
        self.assertEqual(simulator.get("/feedback")["entries"], [])
        self.assertError(simulator.request("/feedback", "POST", late | {"token": "ef" * 32}), 404)

    def test_a_token_without_an_app_is_still_known(self):
        simulator = self.simulator
        old = simulator.post("/devices", {"topic": "com.example.app", "identifier": "a"})["apps"][0]["token"]
        simulator.post("/devices/a/apps/com.example.app", {"token": "cd" * 32}, "PUT")
        status, answer = simulator.curl(old)
        self.assertEqual((status, answer["reason"]), (410, "ExpiredToken"))
        known = simulator.get("/tokens/" + old)
        self.assertEqual((known["isInstalled"], known["topic"]), (False, "com.example.app"))
        self.assertIn("replacedAt", known)
        simulator.post("/devices/a", None, "DELETE")
        known = simulator.get("/tokens/" + "cd" * 32)
        self.assertIn("removedAt", known)
        self.assertNotIn("device", known)
        self.assertEqual(simulator.curl("cd" * 32)[1]["reason"], "Unregistered")

    def test_a_notification_has_its_bytes_and_a_rejected_one_its_reason(self):
        simulator = self.simulator
        simulator.push('{"aps":{}}')
        simulator.push("{}", token="ef" * 32)
        rejected = simulator.get("/notifications?wait=10s&outcome=rejected")["notifications"][0]
        self.assertEqual((rejected["status"], rejected["reason"]), (8, "8 (invalid token)"))
        number = simulator.get("/notifications")["notifications"][0]["number"]
        shown = simulator.get(f"/notifications/{number}")["frame"]
        self.assertEqual(bytes.fromhex(shown["hex"]), frame('{"aps":{}}'))
        fields = {field["name"]: field["value"] for field in shown["fields"]}
        self.assertEqual(fields["payload"], '{"aps":{}}')
        self.assertEqual(fields["token"], "ab" * 32)
        self.assertEqual(sum(field["length"] for field in shown["fields"]), len(shown["hex"]) // 2)
        simulator.curl("ab" * 32)
        number = simulator.get("/notifications?listener=http2")["notifications"][0]["number"]
        headers = simulator.get(f"/notifications/{number}")["frame"]["headers"]
        self.assertIn({"name": "apns-topic", "value": "com.example.app"}, headers)
        simulator.request("/notifications", "DELETE")
        answer = simulator.get("/notifications?outcome=any")
        self.assertEqual((answer["notifications"], answer["lastNumber"]), ([], number))

    def test_connections_are_listed_and_ended(self):
        simulator = self.simulator
        with simulator.gateway() as gateway:
            gateway.sendall(frame("{}"))
            simulator.get("/notifications?wait=10s")
            connection = simulator.get("/connections")["connections"][-1]
            self.assertEqual(connection["certificate"]["topics"], ["com.example.app"])
            self.assertEqual(connection["notificationCount"], 1)
            self.assertNotIn("closedAt", connection)
            path = f"/connections/binary/{connection['number']}"
            self.assertError(simulator.request(path + "?ending=loud", "DELETE"), 400, "orderly")
            self.assertEqual(simulator.request(path, "DELETE")[0], 200)
            self.assertEqual(gateway.recv(10), b"")
        self.assertError(simulator.request("/connections/binary/99999", "DELETE"), 404)
        self.assertError(simulator.request("/connections/telnet/1", "DELETE"), 400)


class FaultTests(SharedSimulatorTests):
    def test_a_fault_occurs_on_an_open_connection_until_it_is_disabled(self):
        simulator = self.simulator
        events = Events(simulator)
        body = {"at": {"token": "cd"}, "effect": {"name": "reject", "reason": "TooManyRequests"}}
        fault = simulator.post("/faults", body, status=201)
        self.assertEqual((fault["isEnabled"], fault["occurrenceCount"], fault["at"]), (True, 0, {"token": "cd"}))
        self.assertEqual(simulator.curl("ab" * 32)[0], 200)
        self.assertEqual(simulator.curl("cd" * 32), (429, {"reason": "TooManyRequests"}))
        self.assertEqual(simulator.get("/faults")["faults"][0]["occurrenceCount"], 1)
        path = f"/faults/{fault['id']}"
        self.assertEqual(simulator.request(path, "PATCH", {"isEnabled": False})[2]["isEnabled"], False)
        self.assertEqual(simulator.curl("cd" * 32)[0], 200)
        self.assertEqual(simulator.request(path, "DELETE")[0], 200)
        self.assertError(simulator.request(path, "DELETE"), 404)
        application = simulator.get("/faults/log")["applications"][-1]
        self.assertEqual((application["fault"], application["listener"]), (fault["id"], "http2"))
        self.assertEqual(application["effect"]["reason"], "TooManyRequests")
        self.assertEqual(application["notification"], 1)
        kinds = []
        while (event := events.next())["event"] != "faultApplied":
            kinds.append(event["event"])
        self.assertIn("fault", kinds)
        self.assertEqual(event["data"]["fault"], fault["id"])
        events.close()

        with simulator.gateway() as gateway:
            gateway.sendall(frame("{}", identifier=1))
            simulator.get("/notifications?wait=10s&listener=binary")
            simulator.post("/faults", {"effect": {"name": "reject", "status": 7}, "occurrenceCountMax": 1})
            gateway.sendall(frame("{}", identifier=2))
            self.assertEqual(gateway.recv(100), struct.pack(">BBI", 8, 7, 2))

    def test_all_faults_are_replaced_in_yaml_and_returned_unchanged(self):
        self.assertError(self.simulator.request("/faults", "PUT"), 400, "empty")
        simulator = self.simulator
        text = """
            # A fault that always occurs, and one that occurs later.
            faults:
              - effect: {name: reject, reason: ServiceUnavailable}
                occurrenceCountMax: 2
              - at: {notification: 3}
                effect: {name: closeAfter}
                report: {ending: reset}
                isEnabled: false
        """
        faults = simulator.post("/faults", text.encode(), "PUT")["faults"]
        self.assertEqual([fault["isEnabled"] for fault in faults], [True, False])
        self.assertEqual([simulator.curl("ab" * 32)[0] for _ in range(3)], [503, 503, 200])
        told = simulator.get("/faults")
        again = simulator.post("/faults", told, "PUT")["faults"]
        for old, new in zip(told["faults"], again):
            self.assertEqual(old | {"id": 0, "occurrenceCount": 0}, new | {"id": 0})

    def test_errors_are_reported_with_their_line(self):
        request = self.simulator.request
        for text, *words in [
            ("effect: {name: explode}", "line 1", "effect.name", "unknown effect explode; valid effects: reject, "),
            ("effect: {name: closeAftr}", "line 1", "effect.name", "did you mean closeAfter?"),
            ("effect: {name: reject}", "line 1", "effect.name", "status for the binary gateway"),
            ("effect: {name: reject, reason: Blah}", "line 1", "effect.reason", "Blah", "httpStatus"),
            ("at: {notification: 1}\neffect: {name: ignore}\nreports: {}", "line 3", "mean report?", "isEnabled"),
            ("effect:\n  name: reject\n  stauts: 8", "line 3", "stauts"),
            ("effect: {name: reject, status: many}", "line 1", "effect.status"),
            ("at: {notification: 0}\neffect: {name: ignore}", "line 1", "at least 1"),
            ("listener: feedback\neffect: {name: ignore}", "ignore is not supported at the feedback service"),
            ("effect: {name: delay, milliseconds: .inf}", "line 1", "effect.milliseconds", "a number"),
            ("effect: {name: delay, milliseconds: 1e300}", "line 1", "one day"),
            ("at: {seed: 42}\neffect: {name: ignore}", "line 1", "at.seed", "probability"),
            ("at: {notification: 5, seed: 42}\neffect: {name: ignore}", "line 1", "at.seed", "probability"),
            ('{"effect":{"name":"reject","status":8,"reason":"BadTopic"}}', "line 1", "effect.reason", "HTTP/2"),
            ('{"effect":{"name":"reject","status":8,\n"httpStatus":503}}', "line 2", "effect.httpStatus"),
            ('{"effect":{"name":"reject","status":8,"timestamp":1}}', "effect.timestamp"),
            ('{"effect":{"name":"ignore"},"isEnabled":"true"}', "line 1", "isEnabled", "true or false"),
            ('{"effect":{"name":"ignore"},"at":{"token":1234}}', "line 1", "at.token", "a string"),
            ("effect: {name: ignore}\nat: {token: 1e5}", "line 2", "at.token", "quotes"),
            ("effect: {name: ignore}\nlistener: http3", "line 2", "listener", "binary, feedback, http2"),
            ("effect: {name: closeAfter}\nreport: {ending: loud}", "line 2", "report.ending", "orderly, abrupt"),
            ("effect: {name: ignore}\neffect: {name: ignore}", "line 1", "duplicate key effect"),
            ("effect: &a {name: ignore}\nreport: *a", "line 2", "aliases"),
            ("[a]: b", "line 1", "expected a word as key"),
            ("effect: {name: slowReading, byteCount: 99999999999, milliseconds: 1}", "1048576"),
            ("{", "invalid YAML"),
            ("", "expected a fault"),
            ("- a", "keys with values"),
            ("[" * 100_000, "invalid YAML"),
            ("- " * 100_000, "invalid YAML"),
        ]:
            self.assertError(request("/faults", "POST", text.encode()), 400, *words)
        self.assertError(request("/faults", "PUT", b"faults:\n  - effect: {name: ignore}\n  - effect: 3\n"), 400)
        self.assertError(request("/faults", "PUT", b"foults: []"), 400, "line 1", "faults")
        self.assertError(request("/faults", "PUT", b"\xff"), 400, "UTF-8")
        for text, *words in [
            ('{"effect":{"name":"explode"}}', "effect.name"),
            ('{"effect":{"name":"ignore"},"isEnabled":"true"}', "isEnabled"),
            ('{"at":{"token":1234},"effect":{"name":"ignore"}}', "at.token"), ("effect: {name: ignore}", "JSON"),
            ("[" * 100_000, "JSON"), ("[]", "keys with values"), ('{"effects":{}}', "unknown key effects"),
        ]:
            answer = request("/faults", "POST", text.encode(), {"Content-Type": "application/json; charset=utf-8"})
            self.assertError(answer, 400, *words)
        self.assertError(request("/faults/x", "PATCH", {"isEnabled": True}), 400)
        self.assertError(request("/faults/99", "PATCH", {"isEnabled": True}), 404)
        self.assertEqual(self.simulator.get("/faults")["faults"], [])

    def test_yaml_that_expands_exponentially_is_rejected_immediately(self):
        simulator = self.simulator
        # Each one expands to two copies of the previous one.
        aliases = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 28))
        for text, word in [
            (aliases + "? *a27\n: 1\n", "aliases"),
            ("? " * 900 + "[" + "a," * 400_000 + "]", "keys"),
            ("? " * 900 + "a", "key"),
            ("{" * 200 + "a" + "}: b" * 200, "key"),
            (("{" * 200 + "a" + "}: b" * 199 + "}\n- ") * 800, "key"),
        ]:
            start = time.monotonic()
            self.assertError(simulator.request("/faults", "PUT", text.encode()), 400, word)
            self.assertLess(time.monotonic() - start, 10, text[:50])

    def test_the_number_of_faults_is_limited(self):
        fault = {"effect": {"name": "ignore"}, "at": {"token": "cd"}}
        self.simulator.post("/faults", [fault] * 999, "PUT")
        self.simulator.post("/faults", fault, status=201)
        self.assertError(self.simulator.request("/faults", "POST", fault), 507, "1000 faults")
        self.assertError(self.simulator.request("/faults", "PUT", [fault] * 1001), 400, "1001 faults")
        self.assertEqual(len(self.simulator.get("/faults")["faults"]), 1000)

    def test_a_response_is_sent_in_pieces_or_in_one_segment_with_the_end(self):
        for report, most in [({"isSplit": True}, None), ({"isCoalesced": True}, 1)]:
            fault = {"effect": {"name": "reject", "status": 8}, "report": report}
            self.simulator.post("/faults", [fault], "PUT")
            with self.simulator.gateway() as gateway:
                gateway.sendall(frame("{}", identifier=5))
                text = b""
                while part := gateway.recv(100):
                    self.assertTrue(most or len(part) == 1)
                    text += part
                self.assertEqual(text, struct.pack(">BBI", 8, 8, 5))

    def test_goaway_is_sent_instead_of_settings(self):
        self.simulator.post("/faults", {"effect": {"name": "goAwayFirst"}, "occurrenceCountMax": 1})
        context = ssl.create_default_context(cafile=self.simulator.folder + "/authority.pem")
        context.load_cert_chain(self.simulator.folder + "/provider.pem", self.simulator.folder + "/provider.key.pem")
        context.set_alpn_protocols(["h2"])
        connection = socket.create_connection(("127.0.0.1", self.simulator.ready["http2_port"]), DEADLINE)
        with context.wrap_socket(connection, server_hostname="localhost") as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            text = b""
            while part := client.recv(1000):
                text += part
        self.assertEqual(text[3], 7)
        self.assertIn(b'{"reason":"Shutdown"}', text)
        self.assertEqual(self.simulator.curl("ab" * 32)[0], 200)


if __name__ == "__main__":
    unittest.main()
