"""Replays the public logs under all policies: `replay.py PROPHET TRACES REPLAYS RESULTS [HALF]`.

For each window of windows.py, it writes the figures of all policies to RESULTS/WINDOW.json, and for
the last window of each log the forecast errors to RESULTS/LOG.txt. Table 4 of the paper goes to
RESULTS/paper.txt. HALF is `open`, `held-out` or
`all` (the default). A file that is newer than the program PROPHET is kept, so a run that was
interrupted continues where it stopped. pages.py makes docs/evaluation.md from the files.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from windows import LOGS, Window, all_windows, cut

Figures = dict[str, Any]

CONSTANTS = [f"constant:{n}" for n in (1, 2, 4, 8, 16, 32)]
RULES = ["by-hour:4", "burst:10m:4", "burst:5m", "ladder"]
OURS = ["ensemble", "ensemble:0.9", "ensemble:0.95", "ensemble:0.99"]
METHODS = [f"{method}:{quantile}" for method in ("scenario", "scenario+arrivals", "state") for quantile in (0.8, 0.9)]
METHODS += ["increments:0.9", "onnx:0.9"]
KNOWN = ["ends", "jobs:active", "jobs:others", "oracle"]
"""References that know some of the future. They run once and have a file of their own, because they take long."""
POLICIES = ["reactive", *CONSTANTS, *RULES, *OURS, *METHODS, "rates:0.9"]
WARM = [*(f"warm-pool:{n}" for n in (2, 4, 8, 16)), "ensemble+warm-pool"]
"""Policies over groups with warm pools, in a file of their own."""
UNNEEDED = ["5m", "20m"]
"""Values of --scale-down-unneeded-time for the autoscaler alone, beside the default, 10m."""

PLACEHOLDERS_MAX = 16
"""The most placeholders of all instance types together in the search of constants for each type."""

HERE = Path(__file__).resolve().parent


def main(prophet: Path, traces: Path, replays: str, results: Path, half: str) -> None:
    """Runs the windows of a half."""
    results.mkdir(parents=True, exist_ok=True)
    for window in all_windows():
        if half != "all" and window.held_out != (half == "held-out"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            file, begin, end = cut(window, traces, Path(folder))
            world = ["--settings", str(HERE / "reference.yaml"), "--trace", file.name, "--from", begin, "--until", end]
            if window.log.types:
                world += ["--catalog", str(HERE / f"{window.log.name}.yaml")]
            simulate = ["simulate", *world, "--replays", replays, "--output", "json", "--policies"]
            write(prophet, results / f"{window.name}.json", [*simulate, ",".join(POLICIES)], Path(folder))
            once = ["simulate", *world, "--replays", "1", "--output", "json", "--policies"]
            write(prophet, results / f"{window.name}-known.json", [*once, ",".join(KNOWN)], Path(folder))
            if len(window.log.types) > 1:
                search(prophet, results / f"{window.name}-constants.json", simulate, len(window.log.types), Path(folder))
            write(prophet, results / f"{window.name}-warm.json", [*simulate, ",".join(WARM)], Path(folder))
            for span in UNNEEDED:
                unneeded = [*simulate, "reactive", "--scale-down-unneeded-time", span]
                write(prophet, results / f"{window.name}-unneeded-{span}.json", unneeded, Path(folder))
            if is_last(window):
                write(prophet, results / f"{window.log.name}.txt", ["backtest", *world, "--no-decisions", "--wide"], Path(folder))
    paper(prophet, traces, results)


def search(prophet: Path, file: Path, simulate: list[str], types: int, folder: Path) -> None:
    """Writes the figures of the best constants of each number of placeholders, one number for each instance type.

    The search is greedy: the next placeholder is that of the type that removes the most waiting for a dollar.
    """
    if is_done(prophet, file):
        return
    counts = [0] * types
    found: list[Figures] = []
    while sum(counts) < PLACEHOLDERS_MAX:
        more = [[count + (at == other) for other, count in enumerate(counts)] for at in range(types)]
        names = ["constants:" + "/".join(map(str, one)) for one in more]
        policies = json.loads(run(prophet, [*simulate, ",".join(names)], folder))["policies"]
        before = found[-1] if found else policies[0]
        worths = [worth(before, policy) for policy in policies[1:]]
        best = worths.index(max(worths))
        found.append(policies[1 + best])
        counts = more[best]
        if found[-1]["pending_pod_hours"] <= 0.01 * policies[0]["pending_pod_hours"]:
            break
    file.write_text(json.dumps({"policies": found}))


def worth(before: Figures, after: Figures) -> float:
    """Returns the pending pod-hours that a step removes for a dollar of nodes."""
    removed = before["pending_pod_hours"] - after["pending_pod_hours"]
    return float(removed / max(after["dollars"] - before["dollars"], 0.01))


def paper(prophet: Path, traces: Path, results: Path) -> None:
    """Repeats table 4 of the paper on Philly."""
    log = LOGS[0].file(traces.resolve())
    write(prophet, results / "paper.txt", ["backtest", "--paper", "--trace", str(log)], HERE)


def is_last(window: Window) -> bool:
    """Whether the window is the last one of its log."""
    return any(window == log.windows()[-1] for log in LOGS)


def write(prophet: Path, file: Path, arguments: list[str], folder: Path) -> None:
    """Writes the output of a command in a folder into a file, unless it is newer than the program."""
    if is_done(prophet, file):
        return
    start = time.monotonic()
    file.write_text(run(prophet, arguments, folder))
    print(f"{file.name:30} {time.monotonic() - start:6.0f} s", file=sys.stderr, flush=True)


def is_done(prophet: Path, file: Path) -> bool:
    """Whether a file is newer than the program."""
    return file.exists() and file.stat().st_mtime > prophet.stat().st_mtime


def run(prophet: Path, arguments: list[str], folder: Path) -> str:
    """Returns the output of a command in a folder."""
    done = subprocess.run([prophet.resolve(), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    match sys.argv[1:]:
        case [prophet, traces, replays, results]:
            main(Path(prophet), Path(traces), replays, Path(results), "all")
        case [prophet, traces, replays, results, ("open" | "held-out" | "all") as half]:
            main(Path(prophet), Path(traces), replays, Path(results), half)
        case _:
            sys.exit(__doc__)
