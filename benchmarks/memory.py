"""The memory that a process has used."""

from pathlib import Path


def peak_memory() -> int:
    """
    Bytes that this process has held at most, on Linux. `getrusage` would not do: its figure outlives `exec`,
    and so can be that of the process which started this one.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].removesuffix("kB")) * 1024
