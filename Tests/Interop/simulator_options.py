#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the options of `apns-legacy simulator` with its control API.

The environment variable APNS_LEGACY contains the path of the program.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from simulator_process import DEADLINE, PROGRAM, Base, Events, Simulator


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
            [PROGRAM, "simulator", "--key-type", "ec", "--folder", self.folder, *options],
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

    def test_a_port_in_use_is_reported_in_one_line(self):
        with Simulator() as simulator:
            code, text = self.run_to_end("--control-port", str(simulator.port))
            self.assertEqual(code, 69)
            self.assertIn(f":{simulator.port}: address already in use", text)
            lines = [line for line in text.splitlines() if not line.startswith("Created in ")]
            self.assertEqual(len(lines), 1)

    def test_a_file_contains_the_ports_while_they_are_open(self):
        path = self.path("ports.json", "old")
        with Simulator("--announce", path) as simulator:
            self.wait_for(path)
            with open(path) as file:
                self.assertEqual(json.load(file), simulator.ready)
            simulator.end()
            self.assertFalse(os.path.exists(path))
        # Also if a second signal ends the process before its connections.
        simulator = Simulator("--announce", path)
        connection = simulator.gateway()
        simulator.process.terminate()
        simulator.end()
        connection.close()
        simulator.process.stdout.close()
        self.assertFalse(os.path.exists(path))
        code, text = self.run_to_end("--announce", self.path("none/ports.json"))
        self.assertEqual(code, 73)
        self.assertRegex(text, "cannot write .*none/ports.json.lock: No such file or directory")

    def test_a_port_file_belongs_to_one_running_simulator(self):
        path = self.path("ports.json")
        with Simulator("--announce", path) as simulator:
            code, text = self.run_to_end("--announce", path)
            self.assertEqual(code, 75, text)
            self.assertRegex(text, f"ports.json is in use by another simulator, process {simulator.process.pid}")
            self.assertEqual(text.count("\n"), 1)
            self.wait_for(path)
            with open(path) as file:
                self.assertEqual(json.load(file), simulator.ready)
            simulator.process.kill()
            simulator.process.wait(DEADLINE)
        self.assertTrue(os.path.exists(path))
        # The file of a killed simulator is removed before anything else is done, such as creating keys.
        folder = self.path("damaged")
        os.mkdir(folder)
        with open(os.path.join(folder, "key.p8"), "w") as file:
            file.write("x")
        code, text = self.run_to_end("--announce", path, "--folder", folder)
        self.assertEqual(code, 78, text)
        self.assertFalse(os.path.exists(path))

    def wait_for(self, path):
        deadline = time.monotonic() + DEADLINE
        while not os.path.exists(path):
            self.assertLess(time.monotonic(), deadline)

    def test_a_log_keeps_what_others_wrote(self):
        for text in ["my notes", "one\n{\"other\":1}", '{"num', "x" * (2 << 20), '{"number"']:
            path = self.path("notes", text)
            code, error = self.run_to_end("--log-notifications", path)
            self.assertEqual(code, 73, error)
            self.assertIn("its last line is incomplete", error)
            with open(path) as file:
                self.assertEqual(file.read(), text)
        path = self.path("log.jsonl", "a line of another program\n")
        with Simulator("--log-notifications", path) as simulator:
            code, error = self.run_to_end("--log-notifications", path)
            self.assertEqual(code, 75, error)
            self.assertIn("log.jsonl is in use by another process", error)
            simulator.push("{}")
            simulator.get("/notifications?wait=10s")
        with open(path) as file:
            lines = file.readlines()
        self.assertEqual(lines[0], "a line of another program\n")
        self.assertEqual(json.loads(lines[1])["number"], 1)

    def test_a_log_is_a_file_or_a_device(self):
        path = self.path("pipe")
        os.mkfifo(path)
        code, error = self.run_to_end("--log-notifications", path)
        self.assertEqual(code, 73, error)
        self.assertIn("not a regular file", error)

    def test_a_file_for_a_second_topic_is_compared_with_the_certificate_of_that_topic(self):
        topics = ["--topic", "com.example.one", "--topic", "com.example.two"]
        with Simulator(*topics, folder=self.folder):
            pass
        second = "com.example.two.provider.p12"
        shutil.copy(self.path("provider.p12"), self.path(second))
        code, error = self.run_to_end(*topics)
        self.assertEqual(code, 78)
        self.assertIn(f"/{second} contains another certificate than com.example.two.provider.pem", error)

    def test_identifiers_are_letters_and_digits(self):
        for option in ["--key-id", "--team-id"]:
            for value in ['AB"DEFGHIJ', "ABCDEFGHI", "ABCDEFGHI ", "ABCDEFGHI\u00e9"]:
                self.assertEqual(self.run_to_end(option, value)[0], 64, value)

    def test_the_log_contains_each_notification_even_after_a_kill(self):
        path = self.path("log.jsonl")
        with Simulator("--log-notifications", path) as simulator:
            simulator.push("{}", "{}")
            expected = simulator.get("/notifications?wait=10s&count=2")["notifications"]
            simulator.process.kill()
        with open(path) as file:
            self.assertEqual([json.loads(line) for line in file], expected)
        # As if it was killed while it wrote a line.
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
            self.assertIn("removed an incomplete last line of 16 bytes", file.read())

    def test_an_unwritable_log_is_reported_once_and_is_a_failure(self):
        code, text = self.run_to_end("--log-notifications", self.path("none/log.jsonl"))
        self.assertEqual(code, 73)
        self.assertIn("cannot write", text)
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

    def test_faults_are_read_from_a_file_and_an_error_is_one_line(self):
        path = self.path("faults.yaml", "- effect: {name: reject, status: 8}\n  at: {token: cd}\n")
        with Simulator("--faults", path) as simulator:
            self.assertEqual(simulator.get("/faults")["faults"][0]["effect"], {"name": "reject", "status": 8})
            simulator.post("/faults", [], "PUT")
            simulator.post("/reset")
            self.assertEqual(len(simulator.get("/faults")["faults"]), 1)
        path = self.path("suspended.yaml", "- {effect: {name: reject, reason: TooManyRequests}, isEnabled: false}\n")
        with Simulator("--faults", path) as simulator:
            fault = simulator.get("/faults")["faults"][0]
            self.assertEqual(fault["isEnabled"], False)
            self.assertEqual(simulator.curl("ab" * 32)[0], 200)
            simulator.post(f"/faults/{fault['id']}", {"isEnabled": True}, "PATCH")
            self.assertEqual(simulator.curl("ab" * 32)[0], 429)
            simulator.post("/reset")
            self.assertEqual([each["isEnabled"] for each in simulator.get("/faults")["faults"]], [False])
        code, text = self.run_to_end("--faults", self.path("bad.yaml", "- effect: {name: reject}\n  at: {tken: c}\n"))
        self.assertEqual(code, 78)
        self.assertIn("bad.yaml, line 2: [0].at.tken: unknown key tken; did you mean token? Valid keys:", text)
        self.assertEqual(text.count("\n"), 1)
        self.assertEqual(self.run_to_end("--faults", self.path("none"))[0], 66)

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

    STRINGS = """
        /* Texts of the game,
           in the language of its reader. */
        "INVITATION" = "%2$@ invites %1$@ to play.";
        "TITLE" = "100%% %@"; // one argument
        OPEN = "\\U00d6ffnen";
    """
    PAYLOAD = json.dumps({"aps": {"alert": {
        "title-loc-key": "TITLE", "title-loc-args": ["fun"], "subtitle-loc-key": "NO_SUCH_KEY",
        "loc-key": "INVITATION", "loc-args": ["Ann", "Ben"], "action-loc-key": "OPEN"}}})

    def test_localized_alerts_are_shown_with_the_strings_of_the_app(self):
        texts = {"INVITATION": "%2$@ invites %1$@ to play.", "TITLE": "100%% %@", "OPEN": "\u00d6ffnen"}
        expected = {"title": "100% fun", "subtitle": "NO_SUCH_KEY", "body": "Ben invites Ann to play.",
                    "action": "\u00d6ffnen", "isSilent": False, "missingKeys": ["NO_SUCH_KEY"]}
        for name, content in [
            ("a.strings", self.STRINGS.encode()),
            ("b.strings", b"\xff\xfe" + self.STRINGS.encode("utf-16-le")),
            ("c.strings", b"\xfe\xff" + self.STRINGS.encode("utf-16-be")),
            ("d.json", json.dumps(texts).encode()),
        ]:
            path, log = self.path(name), self.path(name + ".jsonl")
            with open(path, "wb") as file:
                file.write(content)
            with Simulator("--strings", path, "--log-notifications", log) as simulator:
                events = Events(simulator)
                simulator.push(self.PAYLOAD)
                self.assertEqual(events.next_notification()["data"]["preview"], expected, name)
                self.assertEqual(simulator.get("/notifications/1")["preview"], expected)
                events.close()
                simulator.end()
            with open(log) as file:
                self.assertEqual(json.loads(file.read())["preview"], expected)

    def test_an_unreadable_strings_file_is_reported_in_one_line(self):
        for name, content, line in [
            ("bad.strings", '"a" = "b";\n"c" = ;\n', 'bad.strings: line 2: expected a key or a text'),
            ("bad.json", '{"a": "b",\n\n"c": 5}', "bad.json: line 3: expected a key or a text"),
        ]:
            code, text = self.run_to_end("--strings", self.path(name, content))
            self.assertEqual(code, 78, text)
            self.assertIn(line, text)
            self.assertEqual(text.count("\n"), 1)
        self.assertEqual(self.run_to_end("--strings", self.path("none"))[0], 66)

    def server_names(self, simulator):
        """The names in the server's certificate."""
        context = ssl.create_default_context(cafile=simulator.folder + "/authority.pem")
        plain = socket.create_connection(("127.0.0.1", simulator.ready["http2_port"]), DEADLINE)
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            return [value for _, value in connection.getpeercert()["subjectAltName"]]

    def test_the_server_certificate_has_the_required_names(self):
        names = ["--server-name", "APNS.test", "--server-name", "172.17.0.2", "--server-name", "fd00::2"]
        error = self.path("error")
        with Simulator(folder=self.folder) as simulator:
            before = self.server_names(simulator)
            self.assertNotIn("apns.test", before)
        with open(error, "w") as stderr, Simulator(*names, folder=self.folder, stderr=stderr) as simulator:
            now = self.server_names(simulator)
            self.assertEqual(set(now) - set(before), {"apns.test", "172.17.0.2", "FD00:0:0:0:0:0:0:2"})
        with open(error) as file:
            line = next(line for line in file if line.startswith("Created in "))
        self.assertIn("(it lacks apns.test, 172.17.0.2, fd00::2): server.pem, server.key.pem", line)
        # A certificate with more names than required is kept.
        with open(error, "w") as stderr, Simulator(folder=self.folder, stderr=stderr) as simulator:
            self.assertEqual(self.server_names(simulator), now)
        with open(error) as file:
            self.assertNotIn("New in", file.read())
        for name in ["", "a b", "-a", "a..b", "1.2.3", "a,DNS:b", "*", "a" * 64, "fe80::1%lo"]:
            code, text = self.run_to_end("--server-name=" + name)
            self.assertEqual(code, 64, name)
            self.assertIn("--server-name", text)

    def test_unknown_tokens_are_accepted_or_rejected_as_configured(self):
        device = ["--device", "ab" * 32]
        for options, status in [
            ([], 200), (device, 400), (["--unknown-tokens", "refuse"], 400),
            (["--unknown-tokens", "accept", *device], 200),
        ]:
            with Simulator(*options) as simulator:
                self.assertEqual(simulator.curl("cd" * 32)[0], status, options)
                self.assertEqual(simulator.curl("cd" * 8)[0], 400)
                token = simulator.post("/devices", {"topic": "com.example.app"})["apps"][0]["token"]
                self.assertEqual(simulator.curl(token)[0], 200)


if __name__ == "__main__":
    unittest.main()
