#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running `apns-legacy simulator`, with functions for requests to it.

The environment variable APNS_LEGACY contains the path of the program. Only the standard library is required; if
openapi-spec-validator is installed, each response is also compared with the description of the API.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

try:
    import jsonschema
    import openapi_spec_validator
    import referencing
    import referencing.jsonschema
    import yaml
except ImportError:
    openapi_spec_validator = None

PROGRAM = os.environ["APNS_LEGACY"]
DEADLINE = 20


class Base(unittest.TestCase):
    """The base class of the control API's tests."""

    def assertError(self, answer, status, *words):
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(list(answer[2]), ["error"])
        for word in words:
            self.assertIn(word, answer[2]["error"])


class SharedSimulatorTests(Base):
    """Tests that share a simulator, which is reset before each."""

    options = []

    @classmethod
    def setUpClass(cls):
        cls.simulator = Simulator(*cls.options)
        cls.addClassCleanup(cls.simulator.__exit__)

    def setUp(self):
        self.simulator.post("/reset")


class Description:
    """The description in /openapi.yaml, which responses are validated with."""

    def __init__(self, text):
        self.document = yaml.safe_load(text)
        openapi_spec_validator.validate(self.document)
        resource = referencing.Resource.from_contents(
            self.document, default_specification=referencing.jsonschema.DRAFT202012
        )
        self.registry = referencing.Registry().with_resource("urn:api", resource)
        # By the identity of their schema.
        self.validators = {}

    def path_of(self, path):
        segments = path.partition("?")[0].split("/")
        best = None
        for template in self.document["paths"]:
            parts = template.split("/")
            if len(parts) != len(segments):
                continue
            if all(part.startswith("{") or part == segment for part, segment in zip(parts, segments)):
                # A path without parameters takes precedence.
                if best is None or template.count("{") < best.count("{"):
                    best = template
        return best

    def resolve(self, value):
        while "$ref" in value:
            target = self.document
            for name in value["$ref"].removeprefix("#/").split("/"):
                target = target[name]
            value = target
        return value

    def check(self, method, path, status, content_type, answer):
        template = self.path_of(path)
        operation = self.document["paths"].get(template, {}).get(method.lower())
        if operation is None:
            # Other paths are rejected.
            assert status in (401, 403, 404, 405, 421), (method, path, status)
            reply = self.document["components"]["responses"]["Error"]
        else:
            replies = operation["responses"]
            reply = self.resolve(replies.get(str(status), replies["default"]))
            assert str(status) in replies or status >= 400, (method, path, status)
        media = reply["content"].get(content_type.partition(";")[0])
        assert media is not None, (method, path, status, content_type)
        self.validator(media["schema"]).validate(answer)

    def validator(self, schema):
        if id(schema) not in self.validators:
            whole = json.loads(json.dumps(schema).replace('"#/', '"urn:api#/'))
            self.validators[id(schema)] = jsonschema.Draft202012Validator(whole, registry=self.registry)
        return self.validators[id(schema)]


class Simulator:
    """A running simulator; `with Simulator("--option") as simulator`."""

    first_folder = None

    def __init__(self, *options, stderr=subprocess.DEVNULL, folder=None):
        self.folder = folder or tempfile.mkdtemp()
        # Only the first simulator creates certificates.
        if folder is None and Simulator.first_folder:
            shutil.copytree(Simulator.first_folder, self.folder, dirs_exist_ok=True)
        # Creating RSA keys takes a second; clients that require them have other tests.
        arguments = [PROGRAM, "simulator", "--key-type", "ec", "--folder", self.folder, *options]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.ready = json.loads(self.process.stdout.readline())
        if folder is None and Simulator.first_folder is None:
            Simulator.first_folder = tempfile.mkdtemp()
            shutil.copytree(self.folder, Simulator.first_folder, dirs_exist_ok=True)
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
        """Returns the status, the headers and the JSON (or text) of a response."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, method=method, data=body, headers=dict(headers))
        try:
            response = urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            text = response.read().decode()
            content_type = response.headers.get("Content-Type")
            answer = json.loads(text) if content_type == "application/json" else text
            if openapi_spec_validator and method != "HEAD":
                self.description().check(method, path, response.status, content_type, answer)
            return response.status, response.headers, answer

    known_description = None

    def description(self):
        if Simulator.known_description is None:
            with urllib.request.urlopen(self.address + "/openapi.yaml") as response:
                Simulator.known_description = Description(response.read())
        return Simulator.known_description

    def post(self, path, body=None, method="POST", status=None):
        answer = self.request(path, method, body)
        assert answer[0] == status or status is None and answer[0] < 300, answer
        return answer[2]

    def curl(self, token, payload='{"aps":{}}', *headers):
        """Sends a notification over HTTP/2; returns the status and the response."""
        arguments = ["curl", "--silent", "--http2", "--max-time", str(DEADLINE), "--cacert"]
        arguments += [self.folder + "/authority.pem", "--cert", self.folder + "/provider.pem"]
        arguments += ["--key", self.folder + "/provider.key.pem", "--data-binary", payload]
        arguments += ["--write-out", "\n%{http_code}", "-H", "apns-topic: com.example.app"]
        for header in headers:
            arguments += ["-H", header]
        arguments.append(f"https://localhost:{self.ready['http2_port']}/3/device/{token}")
        text = subprocess.run(arguments, capture_output=True, text=True, timeout=2 * DEADLINE).stdout
        body, _, status = text.rpartition("\n")
        return int(status), json.loads(body) if body else None

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
            try:
                connection.unwrap()
            except ssl.SSLError:
                # There may be an unread error response.
                pass

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

    def next_notification(self):
        while (event := self.next())["event"] != "notification":
            pass
        return event

    def close(self):
        self.connection.close()
