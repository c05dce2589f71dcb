# SPDX-License-Identifier: Apache-2.0
"""Sends two notifications with the files of a simulator's folder, and prints what comes back in hexadecimal.

Arguments: folder, port, host name, the token of the first notification, the token of the second one.
"""

import pathlib
import socket
import ssl
import struct
import sys


def frame(identifier, token):
    payload = b'{"aps":{"alert":"hello"}}'
    device = bytes.fromhex(token)
    return struct.pack(">BIIH", 1, identifier, 0, len(device)) + device + struct.pack(">H", len(payload)) + payload


folder, port, name, good, bad = pathlib.Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
context = ssl.create_default_context(cafile=folder / "authority.pem")
# The default from Python 3.13 on.
context.verify_flags |= ssl.VERIFY_X509_STRICT
context.load_cert_chain(folder / "provider-combined.pem")
context.load_cert_chain(folder / "provider.pem", folder / "provider.key.pem")
context.load_cert_chain(folder / "provider.pem", folder / "provider-traditional.key.pem")
with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
    with context.wrap_socket(plain, server_hostname=name) as connection:
        connection.sendall(frame(1, good) + frame(2, bad))
        answer = b""
        while piece := connection.recv(64):
            answer += piece
        print(answer.hex())
