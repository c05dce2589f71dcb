#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends notifications with an independent Python client, and prints as JSON the outcomes that it reports; or reads
feedback with one, and prints the tokens and times.

The clients only support TLS 1.0 and Apple's host names. This program only replaces how they open their TLS
connection; they write notifications and read error responses with their own code.
"""

import argparse
import json
import ssl
import sys
import time

PAYLOAD = "sent by an independent client"
ROUND_COUNT_MAX = 10


def send_with_pushjack(arguments, tokens):
    import pushjack
    import pushjack.apns

    def create_socket(host, port, certificate):
        # Python 3.12 removed ssl.wrap_socket(), which did not verify certificates.
        context = ssl.create_default_context(cafile=arguments.trust)
        context.load_cert_chain(certificate)
        plain = pushjack.apns.socket.create_connection((host, port))
        encrypted = context.wrap_socket(plain, server_hostname="localhost")
        encrypted.setblocking(False)
        return encrypted

    pushjack.apns.create_socket = create_socket
    client = pushjack.APNSClient(certificate=arguments.identity, default_error_timeout=arguments.wait)
    client.host, client.port = "127.0.0.1", arguments.port
    response = client.send(tokens, PAYLOAD)
    client.close()
    return {
        "succeeded": response.successes,
        "failed": {token: error.code for token, error in response.token_errors.items()},
        "rounds": 1,
    }


def send_with_apns_clerk(arguments, tokens):
    import OpenSSL

    # The client requests exactly TLS 1.0.
    OpenSSL.SSL.TLSv1_METHOD = OpenSSL.SSL.TLS_CLIENT_METHOD
    from apns_clerk import APNs, Message, Session

    # A time limit would change the context of an earlier connection, which current versions of pyOpenSSL prevent.
    session = Session(connect_timeout=None, read_tail_timeout=arguments.wait)
    connection = session.get_connection(("127.0.0.1", arguments.port), cert_file=arguments.identity)
    service = APNs(connection)
    message = Message(tokens, alert=PAYLOAD)
    failed, rounds = {}, 0
    while message is not None and rounds < ROUND_COUNT_MAX:
        rounds += 1
        result = service.send(message)
        for token, (_, sentence) in result.failed.items():
            failed[token] = sentence
        if result.errors:
            raise SystemExit(f"apns-clerk reports {result.errors}")
        message = result.retry() if result.needs_retry() else None
    session.shutdown()
    return {"succeeded": [token for token in tokens if token not in failed], "failed": failed, "rounds": rounds}


def read_feedback_with_apns_clerk(arguments, _):
    import OpenSSL

    OpenSSL.SSL.TLSv1_METHOD = OpenSSL.SSL.TLS_CLIENT_METHOD
    from apns_clerk import APNs, Session

    session = Session(connect_timeout=None, read_timeout=None)
    connection = session.new_connection(("127.0.0.1", arguments.port), cert_file=arguments.identity)
    pairs = [((token if isinstance(token, str) else token.decode()).lower(), int(time.timestamp()))
             for token, time in APNs(connection).feedback()]
    return {"feedback": pairs}


CLIENTS = {
    "pushjack": send_with_pushjack,
    "apns-clerk": send_with_apns_clerk,
    "apns-clerk-feedback": read_feedback_with_apns_clerk,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--identity", required=True, help="PEM file with certificate and key")
    parser.add_argument("--trust", required=True, help="PEM file with the authority")
    parser.add_argument("--tokens", default="/dev/null", help="file with one token a line")
    parser.add_argument("--wait", type=float, default=2, help="seconds the client waits for an error in the end")
    arguments = parser.parse_args()
    with open(arguments.tokens, encoding="ascii") as file:
        tokens = file.read().split()
    began = time.monotonic()
    outcome = CLIENTS[arguments.client](arguments, tokens)
    outcome["seconds"] = round(time.monotonic() - began, 3)
    json.dump(outcome, sys.stdout)
    print()


if __name__ == "__main__":
    main()
