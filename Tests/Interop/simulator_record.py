#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what `apns-legacy simulator` records and how it responds on the network.

The environment variable APNS_LEGACY contains the path of the program.
"""

import json
import select
import socket
import ssl
import struct
import unittest

from simulator_process import DEADLINE, Base, Events, SharedSimulatorTests, Simulator, frame

# The positions of the connection state and the number of received data segments in the kernel's struct tcp_info.
TCP_STATE = slice(0, 1)
TCP_DATA_SEGMENTS_IN = slice(152, 156)
TCP_CLOSE_WAIT = 8
ALERT, APPLICATION_DATA = 21, 23


class RawProvider:
    """A provider that can read raw bytes from the socket, before TLS decrypts them."""

    def __init__(self, simulator):
        context = ssl.create_default_context(cafile=simulator.folder + "/authority.pem")
        context.load_cert_chain(simulator.folder + "/provider.pem", simulator.folder + "/provider.key.pem")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.socket = socket.create_connection(("127.0.0.1", simulator.ready["gateway_port"]), DEADLINE)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                self.incoming.write(self.socket.recv(65536))
        self.flush()

    def flush(self):
        self.socket.sendall(self.outgoing.read())

    def send(self, data):
        self.tls.write(data)
        self.flush()

    def facts(self):
        """The state of the connection, and the number of received data segments."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return info[TCP_STATE][0], struct.unpack("=I", info[TCP_DATA_SEGMENTS_IN])[0]


def record_types(data):
    """The content types of complete TLS records."""
    types = []
    while data:
        kind, _, count = struct.unpack(">BHH", data[:5])
        assert len(data) >= 5 + count, "a record in part"
        types.append(kind)
        data = data[5 + count:]
    return types


class RecordTests(SharedSimulatorTests):
    def last(self, query="outcome=any"):
        return self.simulator.get(f"/notifications?{query}&wait=10s&order=newest")["notifications"][0]

    def test_the_time_until_the_outcome_is_recorded_on_both_protocols(self):
        simulator = self.simulator
        simulator.push("{}")
        self.assertLess(self.last()["durationMilliseconds"], 10_000)
        self.assertGreater(self.last()["durationMilliseconds"], 0)
        simulator.push("[]")
        self.assertGreater(self.last("outcome=rejected&listener=binary")["durationMilliseconds"], 0)
        simulator.curl("ab" * 32)
        self.assertGreater(self.last("listener=http2")["durationMilliseconds"], 0)
        simulator.curl("ab" * 8)
        self.assertGreater(self.last("outcome=rejected&listener=http2")["durationMilliseconds"], 0)
        for listener, send in [("binary", lambda: simulator.push("{}")), ("http2", lambda: simulator.curl("ab" * 32))]:
            simulator.request("/notifications", "DELETE")
            simulator.post("/faults", [{"effect": {"name": "delay", "milliseconds": 30}}], "PUT")
            send()
            self.assertGreaterEqual(self.last("listener=" + listener)["durationMilliseconds"], 30)

    def test_bytes_that_do_not_start_with_a_command_are_recorded_as_closed(self):
        provider = RawProvider(self.simulator)
        provider.send(b"GET / HTTP/1.1\r\n\r\n")
        with self.assertRaises(ConnectionResetError):
            provider.socket.recv(65536)
        found = self.last()
        self.assertEqual((found["outcome"], found["reason"]), ("rejected", "closed"))
        self.assertNotIn("status", found)
        self.assertEqual(found["payloadProblems"], [])
        shown = self.simulator.get(f"/notifications/{found['number']}")["frame"]["hex"]
        self.assertTrue(bytes.fromhex(shown).startswith(b"GET / HTTP"))
        self.assertEqual(self.simulator.get("/notifications?wait=1ms&outcome=rejected")["lastNumber"], found["number"])
        provider.socket.close()

    def test_every_problem_of_a_payload_is_reported_with_its_position(self):
        payload = '{"aps":{"badge":"1",\n "alert":{"loc-args":[1]}, "sound":5},"x":['
        self.simulator.push('{"aps":{"badge":"1",\n "alert":{"loc-args":[1]}, "sound":5}}')
        self.assertEqual(self.last()["payloadProblems"], [
            {"path": "aps.badge", "line": 1, "column": 17, "text": "aps.badge is a string, expected a number"},
            {"path": "aps.alert.loc-args", "line": 2, "column": 23,
             "text": "aps.alert.loc-args contains a number, expected only strings"},
            {"path": "aps.sound", "line": 2, "column": 36,
             "text": "aps.sound is a number, expected an object or a string"},
        ])
        self.simulator.push(payload)
        problems = self.last("outcome=rejected")["payloadProblems"]
        paths = ["aps.badge", "aps.alert.loc-args", "aps.sound", None]
        self.assertEqual([each.get("path") for each in problems], paths)
        self.simulator.push('{"aps":{"url-args":[%s]}}' % ",".join("1" * 50))
        self.assertEqual(len(self.last()["payloadProblems"]), 20)

    def test_an_applied_fault_names_its_notification_live_and_in_the_log(self):
        simulator = self.simulator
        for listener, effect in [
            ("binary", {"name": "reject", "status": 8}), ("binary", {"name": "closeAfter"}),
            ("http2", {"name": "reject", "reason": "TooManyRequests"}), ("http2", {"name": "shutDown"}),
        ]:
            simulator.post("/faults", [{"effect": effect, "listener": listener}], "PUT")
            events = Events(simulator)
            if listener == "binary":
                simulator.push("{}")
            else:
                simulator.curl("ab" * 32)
            number = events.next_notification()["data"]["number"]
            while (event := events.next())["event"] != "faultApplied":
                pass
            events.close()
            self.assertEqual(event["data"]["notificationNumber"], number, effect)
            self.assertEqual(simulator.get("/faults/log")["applications"][-1], event["data"])
        # An occurrence whose notification is recorded later is reported immediately, and again with its number.
        simulator.post("/faults", [{"effect": {"name": "delay", "milliseconds": 50}}], "PUT")
        events = Events(simulator)
        simulator.curl("ab" * 32)
        found = []
        while len(found) < 3:
            event = events.next()
            if event["event"] in ("faultApplied", "notification"):
                found.append((event["event"], event["data"].get("notificationNumber"), event["data"]["number"]))
        events.close()
        number = found[1][2]
        self.assertEqual([each[:2] for each in found],
                         [("faultApplied", None), ("notification", None), ("faultApplied", number)])
        self.assertEqual(found[0][2], found[2][2])

    def test_a_fault_sends_an_error_response_and_the_end_in_one_segment(self):
        for is_coalesced in (True, False):
            report = {"isCoalesced": is_coalesced}
            self.simulator.post("/faults", [{"effect": {"name": "reject", "status": 8}, "report": report}], "PUT")
            provider = RawProvider(self.simulator)
            before = provider.facts()[1]
            provider.send(frame("{}", identifier=5))
            self.assertTrue(select.select([provider.socket], [], [], DEADLINE)[0])
            state = provider.facts()[0]
            data = provider.socket.recv(65536)
            if is_coalesced:
                # The first data arrives together with the end, and one read returns all of it.
                self.assertEqual(state, TCP_CLOSE_WAIT)
                self.assertEqual(record_types(data), [APPLICATION_DATA, ALERT])
            while more := provider.socket.recv(65536):
                data += more
            self.assertEqual(record_types(data), [APPLICATION_DATA, ALERT])
            self.assertEqual(provider.facts()[1] - before, 1 if is_coalesced else 2)
            provider.incoming.write(data)
            self.assertEqual(provider.tls.read(100), struct.pack(">BBI", 8, 8, 5))
            provider.socket.close()


class RevocationTests(Base):
    def test_a_certificate_is_revoked_and_restored(self):
        with Simulator() as simulator:
            self.assertEqual(simulator.get("/revocations"), {"fingerprints": []})
            self.assertEqual(simulator.curl("ab" * 32)[0], 200)
            fingerprint = simulator.get("/connections")["connections"][-1]["certificate"]["fingerprint"]
            for body in [{}, {"fingerprint": "ab" * 31}, {"fingerprint": "zz" * 32}]:
                self.assertError(simulator.request("/revocations", "POST", body), 400, "SHA-256")
            events = Events(simulator)
            spelled = ":".join(fingerprint[index:index + 2].upper() for index in range(0, 64, 2))
            self.assertEqual(simulator.post("/revocations", {"fingerprint": spelled}, status=201),
                             {"fingerprints": [fingerprint]})
            while (event := events.next())["event"] != "revocations":
                pass
            self.assertEqual(event["data"], {"fingerprints": [fingerprint]})
            events.close()
            self.assertEqual(simulator.curl("ab" * 32), (403, {"reason": "BadCertificate"}))
            with simulator.gateway() as gateway:
                self.assertEqual(gateway.recv(10), b"")
            path = "/revocations/" + fingerprint
            self.assertEqual(simulator.request(path, "DELETE")[2], {"fingerprints": []})
            self.assertError(simulator.request(path, "DELETE"), 404, fingerprint)
            self.assertEqual(simulator.curl("ab" * 32)[0], 200)
        with Simulator("--revoked", "ab" * 32) as simulator:
            simulator.post("/revocations", {"fingerprint": "cd" * 32})
            self.assertEqual(len(simulator.get("/revocations")["fingerprints"]), 2)
            simulator.post("/reset")
            self.assertEqual(simulator.get("/revocations")["fingerprints"], ["ab" * 32])


class BoundTests(Base):
    def test_the_number_of_apps_of_a_device_is_limited(self):
        with Simulator() as simulator:
            topics = [f"com.example.app{number}" for number in range(101)]
            request = simulator.request
            self.assertError(request("/devices", "POST", {"topics": topics}), 507, "100 apps per device")
            self.assertEqual(simulator.get("/devices")["devices"], [])
            device = simulator.post("/devices", {"topics": topics[:-1]}, status=201)
            path = f"/devices/{device['identifier']}/apps/"
            self.assertError(request(path + topics[-1], "PUT"), 507, "100 apps per device")
            self.assertEqual(request(path + topics[0], "PUT")[0], 200)


if __name__ == "__main__":
    unittest.main()
