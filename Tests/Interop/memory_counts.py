#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how often patterns, in hexadecimal, are in the writable memory of a process: memory_counts.py PID PATTERN...

The counts are in one line, in the order of the patterns.
"""

import sys

pid, patterns = sys.argv[1], [bytes.fromhex(text) for text in sys.argv[2:]]
counts = [0] * len(patterns)
with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
    for bounds, mode in (line.split()[:2] for line in maps):
        if not mode.startswith("rw"):
            continue
        start, end = (int(bound, 16) for bound in bounds.split("-"))
        memory.seek(start)
        content = memory.read(end - start)
        if len(content) != end - start:
            sys.exit(f"{bounds} cannot be read")
        counts = [count + content.count(pattern) for count, pattern in zip(counts, patterns)]
print(*counts)
