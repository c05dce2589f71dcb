#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the control API of `apns-legacy simulator` from outside, as a program in another language uses it.

The program to test is the environment variable APNS_LEGACY. Only the standard library is needed.
"""

import http.client
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

PROGRAM = os.environ["APNS_LEGACY"]
DEADLINE = 20


class Simulator:
    """A running simulator; `with Simulator("--option") as simulator`."""

    def __init__(self, *options, stderr=subprocess.DEVNULL):
        self.folder = tempfile.mkdtemp()
        arguments = [PROGRAM, "simulator", "--folder", self.folder, *options]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.ready = json.loads(self.process.stdout.readline())
        self.port = self.ready["control_port"]
        self.address = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(DEADLINE)
        self.process.stdout.close()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)

    def request(self, path, method="GET", body=None, headers={}, timeout=DEADLINE):
        """The status, the headers and the JSON (or text) of an answer."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, method=method, data=body, headers=dict(headers))
        try:
            response = urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            text = response.read().decode()
            is_json = response.headers.get("Content-Type") == "application/json"
            return response.status, response.headers, json.loads(text) if is_json else text

    def get(self, path):
        status, _, answer = self.request(path)
        assert status == 200, (status, answer)
        return answer

    def gateway(self):
        context = ssl.create_default_context(cafile=self.folder + "/authority.pem")
        context.load_cert_chain(self.folder + "/provider.pem", self.folder + "/provider.key.pem")
        connection = socket.create_connection(("127.0.0.1", self.ready["gateway_port"]), DEADLINE)
        return context.wrap_socket(connection, server_hostname="localhost")

    def push(self, *payloads, token="ab" * 32, identifier=7):
        """Sends notifications over the binary protocol."""
        with self.gateway() as connection:
            for payload in payloads:
                connection.sendall(frame(payload, token, identifier))
            connection.unwrap()

    def raw(self, text, timeout=DEADLINE):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout)
        connection.sendall(text.encode() if isinstance(text, str) else text)
        return connection


def frame(payload, token="ab" * 32, identifier=7, expiry=0):
    bytes_, token = payload.encode(), bytes.fromhex(token)
    head = struct.pack(">BIIH", 1, identifier, expiry, len(token))
    return head + token + struct.pack(">H", len(bytes_)) + bytes_


def status_of(connection):
    with connection:
        line = connection.makefile("rb").readline().decode()
        return int(line.split()[1]) if line else None


class Events:
    """Reads server-sent events."""

    def __init__(self, simulator, headers={}):
        self.connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=DEADLINE)
        self.connection.request("GET", "/events", headers=headers)
        self.response = self.connection.getresponse()

    def next(self):
        """The next event as its fields; None at the end."""
        fields = {}
        while line := self.response.readline().decode():
            line = line.rstrip("\n")
            if not line and "data" in fields:
                fields["data"] = json.loads(fields["data"])
                return fields
            name, _, value = line.partition(": ")
            if name and line:
                fields[name] = value
        return None

    def close(self):
        self.connection.close()


class Base(unittest.TestCase):
    def assertError(self, answer, status, *words):
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(list(answer[2]), ["error"])
        for word in words:
            self.assertIn(word, answer[2]["error"])


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

    def test_a_notification_is_shown_whole(self):
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
        self.assertEqual(self.simulator.get("/notifications/1"), first)

    def test_filters_choose(self):
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

    def test_mistakes_are_named(self):
        request = self.simulator.request
        self.assertError(request("/notifications?tokn=1"), 400, "tokn", "token, topic")
        self.assertError(request("/notifications?token=1&token=2"), 400, "twice")
        self.assertError(request("/notifications?wait=5"), 400, "5s")
        self.assertError(request("/notifications?text=%zz"), 400, "percent")
        self.assertError(request("/notifications/x"), 400, "number")
        self.assertError(request("/notifications/99"), 404, "99")
        self.assertError(request("/nothing"), 404, "/openapi.yaml")
        self.assertError(request("/status", "POST", b"{}"), 405, "GET")
        self.assertEqual(request("/status", "POST", b"{}")[1]["Allow"], "GET")
        self.assertError(request("/status?x=1"), 400, "x")
        self.assertError(request("/page/../status"), 404)

    def test_files_are_served_with_their_types_and_every_answer_is_guarded(self):
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

    def test_a_wait_that_is_over_says_what_came(self):
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
            ({"Origin": "http://rebound.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://127.0.0.1:1"}, 403),
            ({"Origin": self.simulator.address}, 200),
            ({"Host": "localhost:1"}, 200),
        ]:
            for path in ["/", "/status", "/notifications"]:
                self.assertEqual(self.simulator.request(path, headers=headers)[0], status, (headers, path))
        self.assertEqual(status_of(self.simulator.raw("GET /status HTTP/1.0\r\n\r\n")), 421)

    def test_garbage_and_long_heads_end_the_connection_alone(self):
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
    def test_a_wait_ends_as_soon_as_enough_came(self):
        with Simulator() as simulator:
            answers = []

            def wait():
                answers.append(simulator.get("/notifications?wait=15s&count=2&token=" + "ab" * 32))

            thread = threading.Thread(target=wait)
            thread.start()
            simulator.push("{}", token="cd" * 32)
            simulator.push("{}", "{}")
            thread.join(DEADLINE)
            self.assertEqual([each["number"] for each in answers[0]["notifications"]], [2, 3])

    def test_events_come_live_and_resume(self):
        with Simulator() as simulator:
            events = Events(simulator)
            self.assertEqual(events.response.headers["Content-Type"], "text/event-stream")
            simulator.push('{"aps":{"alert":"a\\nb"}}', '{\n"aps":{}}')
            first, second = events.next(), events.next()
            self.assertEqual(first["event"], "notification")
            self.assertEqual(first["data"], simulator.get("/notifications/1"))
            self.assertEqual(second["data"]["payloadText"], '{\n"aps":{}}')
            events.close()
            simulator.push("{}")
            simulator.get("/notifications?wait=10s&count=3")
            resumed = Events(simulator, {"Last-Event-ID": first["id"]})
            self.assertEqual([resumed.next()["data"]["number"] for _ in range(2)], [2, 3])
            resumed.close()

    def test_one_that_never_reads_costs_nothing_and_learns_what_it_missed(self):
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

    def test_there_are_no_more_waits_and_connections_than_there_may_be(self):
        with Simulator() as simulator:
            request = b"GET /notifications?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n"
            waiting = [simulator.raw(request) for _ in range(300)]
            status = [connection for connection in waiting if is_readable(connection)]
            self.assertEqual(len(status), 300 - 256)
            for connection in status:
                self.assertEqual(status_of(connection), 503)
            self.assertError(simulator.request("/notifications?wait=1s"), 503, "256")
            # Other requests are answered all the same, until there are too many connections.
            self.assertEqual(simulator.get("/status")["heldCount"], 0)
            more = [simulator.raw("") for _ in range(400)]
            closed = [connection for connection in more if is_readable(connection)]
            self.assertGreater(len(closed), 50)
            for connection in waiting + more:
                connection.close()
            # The places are free again.
            deadline = time.monotonic() + DEADLINE
            while True:
                try:
                    simulator.push("{}")
                    self.assertEqual(simulator.request("/notifications?wait=1s")[0], 200)
                    break
                except (ConnectionError, http.client.HTTPException, urllib.error.URLError):
                    self.assertLess(time.monotonic(), deadline)

    def test_a_body_that_is_too_long_or_too_slow_ends(self):
        with Simulator() as simulator:
            head = "POST /shutdown HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
            slow = simulator.raw(head + "1", timeout=30)
            start = time.monotonic()
            while slow.recv(1000):
                pass
            self.assertLess(time.monotonic() - start, 15)

    def test_it_ends_on_sigterm_and_on_request_with_clients_there(self):
        for end in ["SIGTERM", "POST"]:
            with Simulator() as simulator:
                events = Events(simulator)
                waiting = simulator.raw("GET /notifications?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
                idle = simulator.raw("")
                simulator.push("{}", token="cd" * 32)
                self.assertEqual(events.next()["event"], "notification")
                start = time.monotonic()
                if end == "POST":
                    self.assertEqual(simulator.request("/shutdown", "POST")[0], 202)
                    code = simulator.process.wait(DEADLINE)
                else:
                    code = simulator.end()
                self.assertEqual(code, 0)
                self.assertLess(time.monotonic() - start, 6)
                # The stream ends in order, not in the middle of a chunk.
                self.assertIsNone(events.next())
                idle.close()
                waiting.close()


def is_readable(connection):
    """Whether an answer, or the end, comes within a moment."""
    connection.settimeout(0.05)
    try:
        connection.recv(1, socket.MSG_PEEK)
        return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.settimeout(DEADLINE)


class OptionTests(Base):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def run_to_end(self, *options):
        run = subprocess.run(
            [PROGRAM, "simulator", "--folder", self.folder, *options],
            capture_output=True, text=True, timeout=DEADLINE,
        )
        return run.returncode, run.stderr

    def test_without_loopback_a_token_is_required(self):
        code, text = self.run_to_end("--control-host", "0.0.0.0")
        self.assertEqual(code, 64)
        self.assertIn("--control-token-file", text)
        code, text = self.run_to_end("--control-host", "0.0.0.0", "--control-token-file", self.path("none"))
        self.assertEqual(code, 66, text)
        code, text = self.run_to_end("--control-host", "0.0.0.0", "--control-token-file", self.path("short", "abc\n"))
        self.assertEqual(code, 78, text)
        token = self.path("token", "0123456789abcdef\nnot this\n")
        with Simulator("--control-host", "0.0.0.0", "--control-token-file", token) as simulator:
            self.assertError(simulator.request("/status"), 401, "Bearer")
            self.assertIn("Basic", simulator.request("/")[1]["WWW-Authenticate"])
            wrong = {"Authorization": "Bearer 0123456789abcdee"}
            self.assertError(simulator.request("/shutdown", "POST", headers=wrong), 401)
            right = {"Authorization": "Bearer 0123456789abcdef"}
            self.assertEqual(simulator.request("/status", headers=right)[0], 200)
            self.assertEqual(simulator.request("/events", "HEAD", headers=right)[0], 200)
            self.assertError(simulator.request("/status", headers=right | {"Host": "rebound.example"}), 421)

    def test_a_port_that_is_taken_is_one_line(self):
        with Simulator() as simulator:
            code, text = self.run_to_end("--control-port", str(simulator.port))
            self.assertEqual(code, 69)
            self.assertIn(f"port {simulator.port}: something listens there already", text)
            self.assertEqual(text.count("\n"), 1)

    def test_the_ports_are_announced_in_a_file_as_long_as_they_are_open(self):
        path = self.path("ports.json", "old")
        with Simulator("--announce", path) as simulator:
            deadline = time.monotonic() + DEADLINE
            while not os.path.exists(path):
                self.assertLess(time.monotonic(), deadline)
            with open(path) as file:
                self.assertEqual(json.load(file), simulator.ready)
            simulator.end()
            self.assertFalse(os.path.exists(path))
        code, text = self.run_to_end("--announce", self.path("none/ports.json"))
        self.assertEqual(code, 73)
        self.assertRegex(text, "Cannot write .*none/ports.json.new: No such file or directory")

    def test_the_log_has_each_notification_also_after_a_kill(self):
        path = self.path("log.jsonl")
        with Simulator("--log-notifications", path) as simulator:
            simulator.push("{}", "{}")
            expected = simulator.get("/notifications?wait=10s&count=2")["notifications"]
            simulator.process.kill()
        with open(path) as file:
            self.assertEqual([json.loads(line) for line in file], expected)
        # Killed within a line.
        with open(path, "a") as file:
            file.write('{"number":3,"rec')
        error = self.path("error")
        with open(error, "w") as stderr, Simulator("--log-notifications", path, stderr=stderr) as simulator:
            simulator.push("{}")
            simulator.get("/notifications?wait=10s")
            self.assertEqual(simulator.end(), 0)
        with open(path) as file:
            self.assertEqual([json.loads(line)["number"] for line in file], [1, 2, 1])
        with open(error) as file:
            self.assertIn("cut off a last line of 16 bytes", file.read())

    def test_a_log_that_cannot_be_written_is_said_once_and_not_a_success(self):
        code, text = self.run_to_end("--log-notifications", self.path("none/log.jsonl"))
        self.assertEqual(code, 73)
        self.assertIn("Cannot write", text)
        error = self.path("error")
        with open(error, "w") as stderr:
            with Simulator("--log-notifications", "/dev/full", stderr=stderr) as simulator:
                simulator.push("{}", "{}", "{}")
                simulator.get("/notifications?wait=10s&count=3")
                self.assertEqual(simulator.end(), 74)
        with open(error) as file:
            lines = [line for line in file if "/dev/full" in line]
        self.assertEqual(len(lines), 1)
        self.assertIn("No space left on device", lines[0])

    def test_verbose_output_shows_what_was_accepted(self):
        error = self.path("error")
        with open(error, "w") as stderr, Simulator("--verbose", stderr=stderr) as simulator:
            simulator.push('{"aps":{"alert":"a secret"}}')
            simulator.get("/notifications?wait=10s")
            self.assertEqual(simulator.end(), 0)
        with open(error) as file:
            text = file.read()
        line = next(line for line in text.splitlines() if "notification accepted" in line)
        self.assertIn("com.example.app", line)
        self.assertIn("abababab", line)
        self.assertNotIn("ab" * 5, text)
        self.assertNotIn("secret", text)


if __name__ == "__main__":
    unittest.main()
