"""Bytes that were tampered with, and a process of its own to read them in."""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import sys

_LIES = (-1, 1, 5, 1000, 2**31, 2**40, 2**62, -(2**63))


def mutated(body: bytes, random: random.Random) -> bytes:
    """``body`` with a few bytes changed, or with an absurd number in place of eight of them."""
    changed = bytearray(body)
    for _ in range(random.choice([1, 1, 2, 4])):
        place = random.randrange(len(changed))
        if random.random() < 0.6:
            changed[place] = random.choice([0, 127, 128, 255, random.randrange(256)])
        else:
            start = min(place // 8 * 8, len(changed) - 8)
            changed[start : start + 8] = struct.pack("<q", random.choice(_LIES))
    return bytes(changed)


def run_apart(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own with little memory: a crash of it is a failure, not the end of all."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def limit_memory() -> None:
    most = 3 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
