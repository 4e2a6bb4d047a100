"""How much memory a process has taken at most."""

import re
from pathlib import Path


def peak_memory() -> int:
    """Bytes of this process since it began to run its program. (What `getrusage` counts begins before that, with the
    process that it was copied from.)
    """
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) << 10
