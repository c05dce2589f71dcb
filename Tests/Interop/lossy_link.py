#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends batches over a link that loses and delays packets, to a peer that stops reading and resets the connection.

It must run in a network namespace of its own. It creates a second one with a simulator behind a relay, and forwards
packets between the two, so that it sees each of them. The relay gives the simulator exactly what its system has
received of a connection that it resets: that is what a service could have processed.

    lossy_link.py --protocol binary|http2 --seed N --rounds N --count N [--delivery at-most-once]

The host names of the services must resolve to 10.77.0.2. Each round is one line of JSON on standard output; an account
that is wrong ends it with 1.
"""

import argparse
import collections
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time

NEAR, FAR = "10.77.0.1", "10.77.0.2"
PAYLOAD = '{"aps":{"alert":"A text of a usual length, as an app would show it."}}'
# A frame of command 1 with a token of 32 bytes.
FRAME_BYTE_COUNT = 1 + 4 + 4 + 2 + 32 + 2 + len(PAYLOAD)


def command(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def tunnel(name, address, peer):
    """Creates a network interface, and returns the descriptor of its packets."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    # TUNSETIFF with IFF_TUN and IFF_NO_PI.
    fcntl.ioctl(descriptor, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
    command("ip", "address", "add", address, "peer", peer, "dev", name)
    command("ip", "link", "set", name, "up", "txqueuelen", "5000")
    command("ip", "link", "set", "lo", "up")
    return descriptor


class Link(threading.Thread):
    """Forwards packets between two interfaces, with losses and delays, and records what the near side sends."""

    def __init__(self, near, far, seed):
        super().__init__(daemon=True)
        self.ends = {near: far, far: near}
        self.near = near
        self.random = random.Random(seed)
        self.loss, self.delay, self.jitter = 0.0, 0.0, 0.0
        # By the near port: the number of bytes that were sent at least once, without the ends of the connection.
        self.sent = collections.Counter()
        self.starts = {}
        self.lost = 0

    def run(self):
        waiting, numbers = [], itertools.count()
        while True:
            timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else None
            for source in select.select(list(self.ends), [], [], timeout)[0]:
                for packet in self.packets(source):
                    if source == self.near:
                        self.record(packet)
                    if self.random.random() < self.loss:
                        self.lost += 1
                        continue
                    at = time.monotonic() + self.delay + self.random.random() * self.jitter
                    heapq.heappush(waiting, (at, next(numbers), self.ends[source], packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(waiting)
                try:
                    os.write(target, packet)
                except BlockingIOError:
                    self.lost += 1

    @staticmethod
    def packets(source):
        while True:
            try:
                yield os.read(source, 65536)
            except BlockingIOError:
                return

    def record(self, packet):
        """Records the part of a TCP stream in a packet of the near side."""
        if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        header = (packet[0] & 15) * 4
        port, number = struct.unpack_from(">HxxI", packet, header)
        offset, flags = packet[header + 12] >> 4, packet[header + 13]
        byte_count = len(packet) - header - offset * 4
        if flags & 2:
            self.starts[port] = number + 1
        elif byte_count and port in self.starts:
            end = (number + byte_count - self.starts[port]) & 0xFFFFFFFF
            self.sent[port] = max(self.sent[port], end)


class Relay(threading.Thread):
    """Forwards connections to a service in a network namespace of its own; of the first one in a round, only a part."""

    def __init__(self, program, folder):
        super().__init__(daemon=True)
        self.program, self.folder = program, folder
        self.ready = threading.Event()
        self.rounds = []

    def run(self):
        # Only this thread, and what it starts, is in the new namespace.
        if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        self.descriptor = tunnel("far", FAR, NEAR)
        log = open(f"{self.folder}/simulator.log", "w")
        self.simulator = subprocess.Popen(
            [self.program, "simulator", "--folder", f"{self.folder}/certs", "--key-type", "ec",
             "--log-notifications", f"{self.folder}/received.jsonl"],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
        )
        self.ports = json.loads(self.simulator.stdout.readline())
        self.commands, self.wake = socket.socketpair()
        self.listener = socket.create_server((FAR, 0))
        self.port = self.listener.getsockname()[1]
        self.ready.set()
        peers, self.withheld = {}, None
        limit, count, target = 0, 0, 0
        while True:
            for ready in select.select([self.commands, self.listener, *peers], [], [])[0]:
                if ready is self.commands:
                    words = json.loads(self.commands.recv(4096))
                    if words["do"] == "begin":
                        limit, count, target, first = words["limit"], 0, words["port"], True
                        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, words["buffer"])
                    elif self.withheld:
                        self.reset(*self.withheld)
                        self.withheld = None
                    self.commands.send(b".")
                elif ready is self.listener:
                    provider, address = self.listener.accept()
                    service = socket.create_connection(("127.0.0.1", target))
                    peers[provider], peers[service] = service, provider
                    if first:
                        first, self.first, self.first_port = False, provider, address[1]
                    else:
                        # What follows is not withheld.
                        provider.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                elif ready in peers:
                    count += self.pump(ready, peers, limit - count if ready is self.first else 65536)
                    if ready is self.first and count >= limit:
                        self.withheld = (ready, peers.pop(ready))
                        peers.pop(self.withheld[1])

    def pump(self, source, peers, byte_count_max):
        """Forwards some bytes, or the end; returns how many."""
        try:
            data = source.recv(min(65536, byte_count_max))
            if data:
                peers[source].sendall(data)
                return len(data) if source is self.first else 0
        except OSError:
            pass
        for end in (source, peers[source]):
            peers.pop(end)
            end.close()
        return 0

    def reset(self, provider, service):
        """Gives the service what this system has received without reading it, and resets the connection."""
        data = b""
        try:
            data = provider.recv(8 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            pass
        provider.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        provider.close()
        self.withheld_byte_count = len(data)
        service.sendall(data)
        service.shutdown(socket.SHUT_WR)
        # The service reads all of it, and then closes its end.
        service.settimeout(20)
        try:
            while service.recv(65536):
                pass
        except OSError:
            pass
        service.close()

    def tell(self, **words):
        self.wake.send(json.dumps(words).encode())
        self.wake.recv(1)


class Failure(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Failure(text)


def round_of(number, options, link, relay, folder):
    chance = random.Random(f"{options.seed} {number}")
    tokens = [f"{number:08x}{index:08x}".ljust(64, "a") for index in range(options.count)]
    with open(f"{folder}/tokens", "w") as file:
        file.write("\n".join(tokens) + "\n")
    with open(f"{folder}/payload.json", "w") as file:
        file.write(PAYLOAD)
    binary = options.protocol == "binary"
    link.loss = chance.choice([0, 0.01, 0.03])
    link.delay = chance.choice([0.0005, 0.005, 0.02])
    link.jitter = chance.choice([0, link.delay])
    relay.tell(
        do="begin",
        limit=chance.randrange(5_000, 200_000),
        buffer=chance.choice([8_192, 60_000, 400_000]),
        port=relay.ports["gateway_port" if binary else "http2_port"],
    )
    results_path = f"{folder}/results.jsonl"
    if os.path.exists(results_path):
        os.unlink(results_path)
    words = [
        options.program, "send", "--tokens", f"{folder}/tokens", "--payload", f"{folder}/payload.json",
        "--certificate", f"{folder}/certs/provider-combined.pem", "--trust", f"{folder}/certs/authority.pem",
        "--host", "gateway.sandbox.push.apple.com" if binary else "api.sandbox.push.apple.com",
        "--port", str(relay.port), "--transport", options.protocol, "--delivery", options.delivery,
        "--results", results_path, "--quiet",
    ]
    with open(f"{folder}/send.log", "w") as log:
        sender = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while relay.withheld is None and sender.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    require(relay.withheld is not None, f"the connection was not withheld: {open(f'{folder}/send.log').read()}")
    time.sleep(chance.random() * 0.5)
    relay.tell(do="reset")
    # Everything else arrives soon.
    link.loss = link.jitter = 0
    link.delay = 0
    code = sender.wait(60)
    received = collections.Counter()
    with open(f"{folder}/received.jsonl") as file:
        for line in file:
            token = json.loads(line)["token"]
            if token.startswith(f"{number:08x}"):
                received[token] += 1
    results = {}
    with open(results_path) as file:
        for line in file:
            result = json.loads(line)
            require(result["line"] not in results, f"two results of line {result['line']}")
            results[result["line"]] = result
    require(sorted(results) == list(range(1, options.count + 1)), "a line has no result")
    outcomes = collections.Counter(result["outcome"] for result in results.values())
    require(set(outcomes) <= {"accepted", "indeterminate"}, f"{outcomes}")
    doubtful = {tokens[line - 1] for line, result in results.items() if result.get("possibleDuplicate")}
    for line, result in results.items():
        token = tokens[line - 1]
        require(received[token] <= 1 or token in doubtful, f"line {line} arrived twice, unflagged")
        require(received[token] or result["outcome"] != "accepted", f"line {line} was accepted, and did not arrive")
        if options.delivery == "at-most-once":
            require(received[token] <= 1, f"line {line} arrived twice")
    sent = link.sent[relay.first_port]
    doubted = len(doubtful) if options.delivery == "at-least-once" else outcomes["indeterminate"]
    # A notification is in doubt only if at least its first byte has left this system.
    require(doubted * FRAME_BYTE_COUNT <= sent or not binary, f"{doubted} in doubt, {sent} bytes sent")
    return {
        "round": number, "protocol": options.protocol, "delivery": options.delivery, "code": code, "lost": link.lost,
        "sentByteCount": sent, "withheldByteCount": relay.withheld_byte_count, "inDoubt": doubted,
        "arrived": sum(1 for token in tokens if received[token]),
        "arrivedTwice": sum(1 for token in tokens if received[token] > 1),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protocol", choices=["binary", "http2"], required=True)
    parser.add_argument("--delivery", choices=["at-least-once", "at-most-once"], default="at-most-once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    options.program = os.environ.get("APNS_LEGACY", "apns-legacy")
    folder = os.getcwd()
    relay = Relay(options.program, folder)
    near = tunnel("near", NEAR, FAR)
    relay.start()
    if not relay.ready.wait(30):
        sys.exit("the simulator did not start")
    link = Link(near, relay.descriptor, options.seed)
    link.start()
    try:
        for number in range(options.rounds):
            print(json.dumps(round_of(number, options, link, relay, folder)), flush=True)
    except Failure as failure:
        print(json.dumps({"round": number, "seed": options.seed, "failure": str(failure)}), flush=True)
        sys.exit(1)
    finally:
        relay.simulator.terminate()


main()
