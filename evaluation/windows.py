"""The public logs, their windows, and the half of the windows that is held out.

`windows.py` prints them. Hyperparameters may be chosen on the open windows only. The held-out
windows of a log are the half whose names have the smallest SHA-256, so nobody chooses them.
"""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DAY = 86_400
WARM_UP_DAYS = 60
"""How long before a window the log begins. Two months contain what the methods can remember."""


@dataclass(frozen=True)
class Log:
    """A public log, and its windows of equal length."""

    name: str
    """The start of the file's name."""
    starts: tuple[int, ...]
    """The starts of the windows, in days after the first submission."""
    days: int
    """The length of a window."""
    types: tuple[str, ...] = ()
    """The instance types on offer, in place of those of the settings. The file NAME.yaml describes them."""

    def file(self, traces: Path) -> Path:
        """Returns the file of the log in the folder `traces`."""
        files = [file for file in sorted(traces.glob(f"{self.name}*.gz")) if "nodes" not in file.name]
        if not files:
            raise SystemExit(f"no log named {self.name}* in {traces}")
        return files[0]

    def windows(self) -> list["Window"]:
        """Returns the windows in the order of time."""
        names = [f"{self.name}-{start}d" for start in self.starts]
        drawn = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
        held_out = set(drawn[: len(drawn) // 2])
        windows = zip(names, self.starts, strict=True)
        return [Window(self, name, start, name in held_out) for name, start in windows]


@dataclass(frozen=True)
class Window:
    """A window of a log, in days after the first submission."""

    log: Log
    name: str
    start: int
    held_out: bool

    @property
    def end(self) -> int:
        """The first day after the window."""
        return self.start + self.log.days


LOGS = (
    Log("philly", starts=(35, 42, 49, 56, 63, 70), days=7),
    Log("LCG", starts=(5, 6, 7, 8, 9, 10), days=1),
    Log("CTC", starts=(56, 98, 140, 182, 224, 266), days=14),
    Log("HPC2N", starts=(150, 330, 510, 690, 870, 1050), days=14),
    Log("openb", starts=(119, 124, 129, 134, 139, 144), days=5, types=("m5.8xlarge", "g4dn.4xlarge", "g5.12xlarge", "g5.48xlarge")),
)


def cut(window: Window, traces: Path, folder: Path) -> tuple[Path, str, str]:
    """Writes the part of the log from the warm-up to the end of the window into `folder`.

    Returns the file, and the start and the end of the window as `prophet` reads them. The format of
    the log is kept, so `prophet` reads its parts as it reads the whole log.
    """
    source = window.log.file(traces)
    lines = gzip.decompress(source.read_bytes()).decode(errors="replace").splitlines(keepends=True)
    times = [submission(line) for line in lines]
    first = min(time for time in times if time is not None)
    begin, end = first + (window.start - WARM_UP_DAYS) * DAY, first + window.end * DAY
    kept = [line for line, time in zip(lines, times, strict=True) if time is None or begin <= time < end]
    earliest = min(time for time in times if time is not None and time >= begin)
    file = folder / f"{window.name}.{source.name.removesuffix('.gz').rsplit('.', 1)[1]}"
    file.write_text("".join(kept))
    seconds = [first + day * DAY - earliest for day in (window.start, window.end)]
    return file, f"{seconds[0]}s", f"{seconds[1]}s"


def submission(line: str) -> int | None:
    """Returns the submission of a line in seconds, or None for a header."""
    if line.startswith(";") or not line.strip():
        return None
    if "," not in line:
        return int(line.split()[1])
    cells = line.rstrip("\n").split(",")
    if cells[0][:4].isdigit():
        return int(datetime.fromisoformat(cells[0]).replace(tzinfo=UTC).timestamp())
    return int(cells[8]) if len(cells) > 8 and cells[8].isdigit() else None


def all_windows() -> Iterator[Window]:
    """Yields the windows of all logs."""
    for log in LOGS:
        yield from log.windows()


if __name__ == "__main__":
    for each in all_windows():
        print(f"{each.name:22} days {each.start:>4} to {each.end:<4} {'held out' if each.held_out else 'open'}")
