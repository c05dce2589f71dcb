#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 push endpoint based on the h2 package, which shares no code with this project.

Prints its port, then the token and the status of the response for each request. Exits at the end of its input.
"""

import argparse
import json
import os
import socket
import ssl
import sys
import threading

import h2.config
import h2.connection
import h2.events

REQUEST_BYTES = 65_536
ANSWERS = {
    "bad": (400, {"reason": "BadDeviceToken"}),
    "dead": (410, {"reason": "Unregistered", "timestamp": 1_700_000_000_500}),
}


class Endpoint:
    def __init__(self, arguments):
        self.kinds = {}
        for kind in ANSWERS:
            for token in getattr(arguments, kind):
                self.kinds[token] = kind
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(arguments.identity)
        self.context.load_verify_locations(arguments.trust)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["h2"])
        self.lock = threading.Lock()

    def say(self, line):
        with self.lock:
            print(line, flush=True)

    def serve(self, plain):
        try:
            with self.context.wrap_socket(plain, server_side=True) as encrypted:
                self.talk(encrypted)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)

    def talk(self, encrypted):
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="ascii"))
        connection.initiate_connection()
        encrypted.sendall(connection.data_to_send())
        requests = {}
        while True:
            bytes = encrypted.recv(REQUEST_BYTES)
            if not bytes:
                return
            for event in connection.receive_data(bytes):
                if isinstance(event, h2.events.RequestReceived):
                    requests[event.stream_id] = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.answer(connection, event.stream_id, requests.pop(event.stream_id))
            encrypted.sendall(connection.data_to_send())

    def answer(self, connection, stream, headers):
        token = headers[":path"].rsplit("/", 1)[1]
        status, body = ANSWERS.get(self.kinds.get(token), (200, None))
        connection.send_headers(
            stream, [(":status", str(status)), ("apns-id", headers["apns-id"])], end_stream=body is None
        )
        if body is not None:
            connection.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self.say(f"{token} {status} {headers.get('apns-topic')} {headers.get('apns-push-type')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--identity", required=True, help="PEM file with certificate and key")
    parser.add_argument("--trust", required=True, help="PEM file with the authority of clients")
    parser.add_argument("--bad", nargs="*", default=[], help="tokens that are rejected")
    parser.add_argument("--dead", nargs="*", default=[], help="tokens whose app is gone")
    endpoint = Endpoint(parser.parse_args())
    listener = socket.create_server(("127.0.0.1", 0))
    endpoint.say(listener.getsockname()[1])

    def accept():
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=endpoint.serve, args=(plain,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()
    # Threads may still use sockets, which must not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
