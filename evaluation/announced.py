"""Replays the public logs with announced jobs: `announced.py PROPHET TRACES REPLAYS RESULTS PAGE`.

For each open window of windows.py and each setting, it writes the figures to
RESULTS/WINDOW-SETTING.json. A file that is newer than the program PROPHET is kept. Then it writes the tables into PAGE, between
the lines that mark their places.
"""

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from pages import table
from replay import is_done, run
from windows import LOGS, Log, Window, all_windows, cut

SHARES = ["25%", "50%", "75%", "100%"]
"""The shares of jobs that are announced."""
AHEAD = ["2m", "5m", "10m"]
"""How long before its submission a job is announced."""
FALSE = ["0%", "20%", "50%"]
"""The shares of announcements for which no job is submitted."""
POLICIES = ["reactive", "ensemble"]
"""The autoscaler alone, and the default."""
ALONE = "constant:0"
"""Announcements without a forecast, which run where the tables have them."""

Setting = tuple[str, str, str]
Figures = dict[str, Any]
Results = dict[tuple[Window, Setting], dict[str, Figures]]

HERE = Path(__file__).resolve().parent
NOTHING: Setting = ("0%", "5m", "0%")


def main(prophet: Path, traces: Path, replays: str, results: Path, page: Path) -> None:
    """Runs all windows and writes the tables."""
    results.mkdir(parents=True, exist_ok=True)
    settings: list[Setting] = [NOTHING, *product(SHARES, AHEAD, FALSE)]
    windows = [window for window in all_windows() if not window.held_out]
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(2) as pool:
        for window in windows:
            folder = Path(root) / window.name
            folder.mkdir()
            file, begin, end = cut(window, traces, folder)
            world = ["--settings", str(HERE / "reference.yaml"), "--trace", file.name, "--from", begin, "--until", end]
            if window.log.types:
                world += ["--catalog", str(HERE / f"{window.log.name}.yaml")]
            command = ["simulate", *world, "--replays", replays, "--output", "json"]
            jobs = [(prophet, place(results, window, setting), [*command, *flags(setting)], folder) for setting in settings]
            list(pool.map(lambda job: write(*job), jobs))
            print(window.name, file=sys.stderr, flush=True)
    found: Results = {}
    for window, setting in product(windows, settings):
        policies = json.loads(place(results, window, setting).read_text())["policies"]
        found[window, setting] = {policy["name"]: policy for policy in policies}
    text = page.read_text()
    for name, rows in (("worth", worth(found)), ("shares", shares(found))):
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, rest = text.split(begin)
        text = before + begin + rows + "\n" + end + rest.split(end)[1]
    page.write_text(text)


def flags(setting: Setting) -> list[str]:
    """Returns the options of a setting."""
    share, ahead, false = setting
    policies = [*POLICIES, ALONE] if (ahead, false) == NOTHING[1:] else POLICIES
    return ["--policies", ",".join(policies), "--announced-share", share, "--announced-ahead", ahead, "--announced-false", false]


def place(results: Path, window: Window, setting: Setting) -> Path:
    """Returns the file of a window and a setting."""
    return results / f"{window.name}-{'-'.join(setting).replace('%', '')}.json"


def write(prophet: Path, file: Path, arguments: list[str], folder: Path) -> None:
    """Writes the output of a command in a folder into a file, unless it is newer than the program."""
    if not is_done(prophet, file):
        file.write_text(run(prophet, arguments, folder))


def open_windows(log: Log) -> list[Window]:
    """Returns the windows of a log that are not held out."""
    return [window for window in log.windows() if not window.held_out]


def total(found: Results, log: Log, setting: Setting, policy: str, *parts: str) -> float:
    """Returns the sum of parts of a policy's bill over the windows of a log, in dollars."""
    return sum(found[window, setting][policy]["bill"][part] for window in open_windows(log) for part in parts)


def waiting(found: Results, log: Log, setting: Setting, policy: str) -> float:
    """Returns the pending pod-hours of a policy in the windows of a log."""
    return sum(float(found[window, setting][policy]["pending_pod_hours"]) for window in open_windows(log))


def price(found: Results, log: Log) -> float:
    """Returns the price of the waiting with the autoscaler alone, in dollars.

    A pending pod-hour costs what the default saves of waiting, for each hour that it removes.
    """
    removed = waiting(found, log, NOTHING, "reactive") - waiting(found, log, NOTHING, "ensemble")
    saved = -total(found, log, NOTHING, "ensemble", "waiting")
    return waiting(found, log, NOTHING, "reactive") * saved / removed


def cost(found: Results, log: Log, setting: Setting, policy: str) -> str:
    """Returns waiting, idling and launching of a policy beyond the autoscaler alone, in % of the price of its waiting."""
    return f"{100 * total(found, log, setting, policy, 'waiting', 'idling', 'launching') / price(found, log):.0f}"


def worth(found: Results) -> str:
    """Returns the table of the waiting that is left and of the dollars of nodes, for announcements five minutes ahead."""
    head = ["log, announced", "pending pod-hours", "by announcements alone", "nodes, $", "cost, %", "by announcements alone, %"]
    rows = []
    for log, share in product(LOGS, ["0%", *SHARES]):
        setting = (share, "5m", "0%")
        hours = [f"{waiting(found, log, setting, policy):.1f}" for policy in ("ensemble", ALONE)]
        dollars = f"{total(found, log, setting, 'ensemble', 'idling', 'launching'):.0f}"
        costs = [cost(found, log, setting, policy) for policy in ("ensemble", ALONE)]
        rows.append([f"{log.name}, {share}", *hours, dollars, *costs])
    return table(head, rows)


def shares(found: Results) -> str:
    """Returns the table of the cost of the default, by share, time ahead and share of false announcements."""
    head = ["log, announced", *(f"{ahead} ahead, {false} false" for ahead, false in product(AHEAD, FALSE))]
    rows = []
    for log, share in product(LOGS, SHARES):
        costs = [cost(found, log, (share, ahead, false), "ensemble") for ahead, false in product(AHEAD, FALSE)]
        rows.append([f"{log.name}, {share}", *costs])
    return table(head, rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [prophet, traces, replays, results, page]:
            main(Path(prophet), Path(traces), replays, Path(results), Path(page))
        case _:
            sys.exit(__doc__)
