"""Makes docs/evaluation.md and its pages: `pages.py RESULTS FOLDER`.

RESULTS has the files of replay.py. FOLDER gets evaluation.md, which begins with prose.md, and in
evaluation/ a page and a plot for each log.
"""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from replay import CONSTANTS, KNOWN, OURS, POLICIES, UNNEEDED
from windows import LOGS, Log, Window

Json = dict[str, Any]

HERE = Path(__file__).parent
SHOWN = ["constant:4", "by-hour:4", "burst:10m:4", *OURS, "rates:0.9", "oracle"]
"""The policies of the first table."""
DRAWS = 10_000
"""The number of resamples of windows for an interval."""


@dataclass(frozen=True)
class Result:
    """The figures of all policies in one window, by name. They are means over replays."""

    window: Window
    policies: dict[str, Json]
    wait: float
    """The dollars of a pending pod-hour."""

    def cost(self, name: str) -> tuple[float, float]:
        """Returns the extra cost of a policy, and the cost of waiting under reactive, in pod-hours."""
        policy, reactive = self.policies[name], self.policies["reactive"]
        idle = (policy["idle_dollars"] - reactive["idle_dollars"]) / self.wait
        return pod_hours(policy) - pod_hours(reactive) + idle, pod_hours(reactive)


def ratio(results: list[Result], part: Callable[[Result], tuple[float, float]]) -> float:
    """Returns the sum over windows of the first value of `part`, divided by that of the second."""
    parts = [part(result) for result in results]
    whole = sum(second for _, second in parts)
    return sum(first for first, _ in parts) / whole if whole else 0.0


def removed(name: str, figure: Callable[[Json], float]) -> Callable[[Result], tuple[float, float]]:
    """Returns, for a window, by how much a policy lowers a figure of reactive, and that figure."""

    def part(result: Result) -> tuple[float, float]:
        before, after = figure(result.policies["reactive"]), figure(result.policies[name])
        return before - after, before

    return part


def minutes(policy: Json) -> float:
    """Returns the minutes that jobs were pending."""
    return float(policy["pending_minutes"]["sum"])


def pod_hours(policy: Json) -> float:
    """Returns the hours that pods were pending."""
    return float(policy["pending_pod_hours"])


def idling(name: str) -> Callable[[Result], tuple[float, float]]:
    """Returns, for a window, the extra idle hours of a policy and the instance-hours of reactive."""
    return lambda result: (
        result.policies[name]["idle_instance_hours"] - result.policies["reactive"]["idle_instance_hours"],
        result.policies["reactive"]["instance_hours"],
    )


def hidden(name: str) -> Callable[[Result], tuple[float, float]]:
    """Returns, for a window, the pods that waited at most one scan, and all pods."""
    return lambda result: (
        result.policies[name]["pods_hidden_share"] * result.policies[name]["pods"],
        result.policies[name]["pods"],
    )


def extra_cost(name: str) -> Callable[[Result], tuple[float, float]]:
    """Returns, for a window, the extra cost of a policy, and the cost of waiting under reactive."""
    return lambda result: result.cost(name)


def break_even(name: str) -> Callable[[Result], tuple[float, float]]:
    """Returns, for a window, the dollars beyond reactive, and the pending pod-hours removed."""
    return lambda result: (
        result.policies[name]["dollars"] - result.policies["reactive"]["dollars"],
        pod_hours(result.policies["reactive"]) - pod_hours(result.policies[name]),
    )


def interval(results: list[Result], part: Callable[[Result], tuple[float, float]]) -> tuple[float, float]:
    """Returns the 95 % interval of a ratio, by resampling windows."""
    draw = random.Random(1)
    values = sorted(ratio(draw.choices(results, k=len(results)), part) for _ in range(DRAWS))
    return values[DRAWS // 40], values[-DRAWS // 40 - 1]


def equal_constant(results: list[Result], name: str) -> float | None:
    """Returns the extra idle share of the constant with as many pending pod-hours as a policy.

    It is interpolated between the constants. It is None if all constants wait longer.
    """
    at = [("reactive", 0.0), *((constant, ratio(results, idling(constant))) for constant in CONSTANTS)]
    waits = [(1 - ratio(results, removed(constant, pod_hours)), idle) for constant, idle in at]
    target = 1 - ratio(results, removed(name, pod_hours))
    for (more_wait, less_idle), (less_wait, more_idle) in pairwise(waits):
        if less_wait <= target <= more_wait and less_wait < more_wait:
            return less_idle + (more_wait - target) / (more_wait - less_wait) * (more_idle - less_idle)
    return None


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(share: float | None, digits: int = 1) -> str:
    """Returns a share as a percentage."""
    return "-" if share is None else f"{100 * share:.{digits}f}"


def halves(results: list[Result]) -> tuple[list[Result], list[Result]]:
    """Returns the held-out windows, and the open ones."""
    held_out = [result for result in results if result.window.held_out]
    return held_out, [result for result in results if not result.window.held_out]


def cost(results: list[Result], name: str) -> str:
    """Returns the extra cost of a policy with its interval by windows, in %."""
    low, high = interval(results, extra_cost(name))
    return f"{percent(ratio(results, extra_cost(name)))} ({percent(low)} to {percent(high)})"


COLUMNS = ["job minutes off, %", "pod-hours off, %", "pods hidden, %", "extra idle, %", "constant's idle, %", "breaks even at $"]
"""The columns of `cells`."""


def cells(results: list[Result], name: str) -> list[str]:
    """Returns the figures of a policy that every table of policies has."""
    return [
        percent(ratio(results, removed(name, minutes))),
        percent(ratio(results, removed(name, pod_hours))),
        percent(ratio(results, hidden(name))),
        percent(ratio(results, idling(name)), 2),
        percent(equal_constant(results, name), 2),
        f"{ratio(results, break_even(name)):.2f}",
    ]


def overview(results: dict[str, list[Result]]) -> str:
    """Returns the first table: a few policies on all logs."""
    head = ["log, policy", *COLUMNS, "cost, held out, %", "cost, open, %"]
    rows = []
    for log, of_log in results.items():
        for name in SHOWN:
            costs = [percent(ratio(half, extra_cost(name))) for half in halves(of_log)]
            rows.append([f"{log}, `{name}`", *cells(of_log, name), *costs])
    return table(head, rows)


def knowledge(results: dict[str, list[Result]]) -> str:
    """Returns the table of what more knowledge of the future is worth: the extra cost on each log."""
    known = [
        ("the past", ["ensemble"]),
        ("the past, and which of the running jobs end within the lead time", ["ends"]),
        ("the past, and the arrival rates of the next half hour", ["rates:0.8", "rates:0.9"]),
        ("the next jobs of users active in the last ten minutes, and no others", ["jobs:active"]),
        ("the next jobs of all other users", ["jobs:others"]),
        ("all next jobs, and their ends", ["oracle"]),
    ]
    rows = []
    for knows, names in known:
        costs = [min(ratio(of_log, extra_cost(name)) for name in names) for of_log in results.values()]
        rows.append([knows, ", ".join(f"`{name}`" for name in names), *(percent(cost) for cost in costs)])
    return table(["known", "policy", *results], rows)


def page(log: Log, results: list[Result], unneeded: dict[str, list[Result]], forecasts: str, paper: str) -> str:
    """Returns the page of a log."""
    head = ["policy", *COLUMNS, "cost, % (interval by window)"]
    rows = [[f"`{name}`", *cells(results, name), cost(results, name)] for name in [*POLICIES[1:], *KNOWN]]
    for span, of_span in unneeded.items():
        name = f"`reactive`, unneeded after {span}"
        rows.append([name, *cells(of_span, "unneeded"), cost(of_span, "unneeded")])
    windows = []
    for result in results:
        policies, window = result.policies, result.window
        windows.append(
            [
                f"days {window.start} to {window.end}, {'held out' if window.held_out else 'open'}",
                f"{policies['reactive']['jobs']:.0f}",
                f"{minutes(policies['reactive']):.0f}",
                f"{pod_hours(policies['reactive']):.1f}",
                *(
                    percent(ratio([result], extra_cost(name)))
                    for name in ("constant:4", "burst:10m:4", *OURS, "rates:0.9", "oracle")
                ),
            ]
        )
    head_windows = ["window", "jobs", "pending minutes", "pending pod-hours"]
    head_windows += [f"`{name}`" for name in ("constant:4", "burst:10m:4", *OURS, "rates:0.9", "oracle")]
    return f"""# Evaluation: {log.name}

[The evaluation](../evaluation.md) explains the columns. Waiting and idling are sums over all
windows.

![Waiting and idling under each policy]({log.name}.svg)

## Policies

{table(head, rows)}

## Extra cost by window, in %

The columns of pending time have the autoscaler alone.

{table(head_windows, windows)}

## Forecasts in the last window

```text
{plain(forecasts)}
```
{paper}"""


def plain(text: str) -> str:
    """Returns the output of a command without the folders of the log."""
    first, rest = text.strip().split("\n", 1)
    return f"{first.rsplit('/', 1)[-1]}\n{rest}"


def paper(results: Path) -> str:
    """Returns the section on table 4 of the paper."""
    return f"""
## Table 4 of the paper

`prophet backtest --paper` repeats the protocol of the paper, at ticks of five minutes, over the
last week. `models/paper/` has the models.

```text
{plain((results / "paper.txt").read_text())}
```
"""


def plot(results: list[Result], file: Path) -> None:
    """Draws pending pod-hours over extra idling, both relative to reactive."""
    figure = Figure(figsize=(7.2, 4.2), layout="tight")
    axes = figure.subplots()

    def points(names: list[str]) -> tuple[list[float], list[float]]:
        idle = [100 * ratio(results, idling(name)) for name in names]
        return idle, [100 * (1 - ratio(results, removed(name, pod_hours))) for name in names]

    axes.plot(*points(["reactive", *CONSTANTS]), "o-", color="#888888", label="constants")
    axes.plot(*points(OURS[1:]), "s-", color="#1f77b4", label="ensemble, service levels")
    axes.plot(*points(["burst:10m:4", "burst:5m"]), "^", color="#9467bd", label="bursts")
    axes.plot(*points(["by-hour:2", "by-hour:4", "by-hour:8"]), "v", color="#8c564b", label="constants by hour")
    axes.plot(*points(["rates:0.8", "rates:0.9"]), "D", color="#2ca02c", label="known rates")
    axes.plot(*points(["oracle"]), "*", color="#ff7f0e", markersize=12, label="oracle")
    idle, waiting = points(["ensemble"])
    axes.plot(idle, waiting, "s", color="#d62728", markersize=9, label="ensemble, the default")
    most = max(points([*OURS, "constant:8"])[0])
    axes.set_xlim(-0.02 * most, 1.1 * most)
    axes.set_ylim(0, 105)
    axes.set_xlabel("extra idle hours, % of the instance-hours of reactive")
    axes.set_ylabel("pending pod-hours, % of reactive's")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    with rc_context({"svg.hashsalt": "prophet"}):
        figure.savefig(file, metadata={"Date": None})


def read(results: Path, window: Window, suffix: str = "") -> Result:
    """Returns the figures of a window."""
    report = json.loads((results / f"{window.name}{suffix}.json").read_text())
    policies = {policy["name"]: policy for policy in report["policies"]}
    return Result(window, policies, report["wait_dollars_per_pod_hour"])


def with_known(results: Path, result: Result) -> Result:
    """Returns the window with the references that know the jobs of some users."""
    known = read(results, result.window, "-known").policies
    return Result(result.window, {**known, **result.policies}, result.wait)


def with_unneeded(results: Path, of_log: list[Result], span: str) -> list[Result]:
    """Returns the windows with `unneeded`, the autoscaler that removes nodes after `span`."""
    changed = []
    for result in of_log:
        other = read(results, result.window, f"-unneeded-{span}").policies["reactive"]
        changed.append(Result(result.window, {**result.policies, "unneeded": other}, result.wait))
    return changed


def main(results: Path, folder: Path) -> None:
    """Writes all pages."""
    pages = folder / "evaluation"
    pages.mkdir(exist_ok=True)
    of_logs = {log.name: [with_known(results, read(results, window)) for window in log.windows()] for log in LOGS}
    for log in LOGS:
        of_log = of_logs[log.name]
        unneeded = {span: with_unneeded(results, of_log, span) for span in UNNEEDED}
        forecasts = (results / f"{log.name}.txt").read_text()
        (pages / f"{log.name}.md").write_text(page(log, of_log, unneeded, forecasts, paper(results) if log == LOGS[0] else ""))
        plot(of_log, pages / f"{log.name}.svg")
    replays = json.loads((results / f"{LOGS[0].windows()[0].name}.json").read_text())["settings"]["replays"]
    prose = (HERE / "prose.md").read_text().replace("{{replays}}", str(replays))
    figures = "\n\n".join(
        f"[{log.name}](evaluation/{log.name}.md):\n\n![Waiting and idling](evaluation/{log.name}.svg)" for log in LOGS
    )
    prose = (
        prose.replace("{{overview}}", overview(of_logs))
        .replace("{{figures}}", figures)
        .replace("{{knowledge}}", knowledge(of_logs))
    )
    (folder / "evaluation.md").write_text(prose)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [results, folder]:
            main(Path(results), Path(folder))
        case _:
            sys.exit(__doc__)
