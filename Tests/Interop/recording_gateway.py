#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway of the legacy binary protocol over Python's own TLS, which appends the number of each accepted
notification to a file before it responds.

The number is the last four bytes of the token. Every fiftieth from the seventh on is rejected as an invalid
token, and later data on the same connection is discarded, as the protocol requires. It prints a line when it listens,
and runs until a signal.
"""

import argparse
import os
import socket
import ssl
import struct
import threading

TIMEOUT = 20.0
REFUSED_EVERY, REFUSED_FIRST = 50, 7
MISSING_TOKEN, INVALID_TOKEN = 2, 8
HEAD = struct.Struct(">BIIH")


class Malformed(Exception):
    pass


def take_frame(received):
    """Returns the identifier and token of the first frame of command 1, and the rest; None if it is incomplete."""
    if len(received) < HEAD.size:
        return None
    command, identifier, _, token_length = HEAD.unpack_from(received)
    if command != 1:
        raise Malformed(received[:16].hex())
    payload_at = HEAD.size + token_length
    if len(received) < payload_at + 2:
        return None
    end = payload_at + 2 + struct.unpack_from(">H", received, payload_at)[0]
    if len(received) < end:
        return None
    return identifier, received[HEAD.size : payload_at], received[end:]


def answer(received, record):
    """Records the accepted notifications in some bytes; returns the error response, if any, and the rest."""
    taken, response = [], None
    while response is None and (frame := take_frame(received)):
        identifier, token, received = frame
        number = struct.unpack(">I", token[-4:])[0] if token else None
        if number is None:
            response = struct.pack(">BBI", 8, MISSING_TOKEN, identifier)
        elif number % REFUSED_EVERY == REFUSED_FIRST:
            response = struct.pack(">BBI", 8, INVALID_TOKEN, identifier)
        else:
            taken.append("%d\n" % number)
    if taken:
        # In one write, so that a kill leaves no incomplete line.
        os.write(record, "".join(taken).encode("ascii"))
    return response, received


def serve(plain, context, record):
    try:
        plain.settimeout(TIMEOUT)
        with context.wrap_socket(plain, server_side=True) as connection:
            received = b""
            while piece := connection.recv(65536):
                response, received = answer(received + piece, record)
                if response:
                    connection.sendall(response)
                    # Later input is read and discarded; a reset would destroy the response.
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                    return
    except OSError:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--identity", required=True, help="PEM file with certificate and key")
    parser.add_argument("--trust", required=True, help="PEM file with the authority of providers")
    parser.add_argument("--record", required=True, help="file that is appended to")
    arguments = parser.parse_args()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=arguments.trust)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(arguments.identity)
    record = os.open(arguments.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with socket.create_server(("127.0.0.1", arguments.port), backlog=64) as listener:
        print("listening", flush=True)
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=serve, args=(plain, context, record), daemon=True).start()


if __name__ == "__main__":
    main()
