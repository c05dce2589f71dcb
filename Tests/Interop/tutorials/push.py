# SPDX-License-Identifier: Apache-2.0
"""Sends notifications and reads feedback the way scripts for Python 2 did, with nothing but its standard library."""
import binascii
import json
import socket
import ssl
import struct
import time

TOKENS = [
    "d1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "d2b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90",
]


def connect(host, port):
    # ssl.wrap_socket(), which Python 3.12 removed, did the same.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS)
    context.load_cert_chain("provider.pem", "provider-traditional.key.pem")
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.connect((host, port))
    return context.wrap_socket(connection)


gateway = connect("gateway.push.apple.com", 2195)
for identifier, token in enumerate(TOKENS):
    payload = json.dumps({"aps": {"alert": "Hello from Python", "badge": identifier}}).encode("utf-8")
    token_bytes = binascii.unhexlify(token)
    if identifier == 0:
        frame = struct.pack("!BH32sH%ds" % len(payload), 0, 32, token_bytes, len(payload), payload)
    else:
        frame = struct.pack("!BIIH32sH%ds" % len(payload), 1, identifier, int(time.time()) + 3600, 32, token_bytes,
                            len(payload), payload)
    gateway.write(frame)
    print("wrote " + binascii.hexlify(frame).decode("ascii"))
gateway.close()

feedback = connect("feedback.push.apple.com", 2196)
while True:
    head = feedback.read(6)
    if not head:
        break
    seconds, length = struct.unpack("!IH", head)
    print("dead " + binascii.hexlify(feedback.read(length)).decode("ascii"))
feedback.close()
