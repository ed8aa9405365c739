"""How much memory this process holds, as Linux tells it."""

from __future__ import annotations

import re

MIB = 2.0**20


def resident(which: str) -> float:
    """Memory of this process in MiB: VmRSS now, VmHWM at its peak."""
    with open("/proc/self/status", encoding="ascii") as status:
        return int(re.search(rf"{which}:\s+(\d+) kB", status.read()).group(1)) / 1024
