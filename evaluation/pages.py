"""Makes docs/evaluation.md and its pages: `pages.py RESULTS FOLDER`.

RESULTS has the files of replay.py. FOLDER gets evaluation.md, which begins with prose.md, and in
evaluation/ a page and a plot for each log.
"""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from replay import CONSTANTS, KNOWN, METHODS, OURS, POLICIES, RULES, UNNEEDED, WARM
from windows import LOGS, Log, Window

Json = dict[str, Any]

HERE = Path(__file__).parent
SHOWN = ["constant:4", "burst:10m:4", *OURS, "rates:0.9", "oracle"]
"""The policies of the first table."""
SIMPLE = [*CONSTANTS, *RULES]
"""The rules that need no forecast."""
DRAWS = 10_000
"""The number of resamples of windows for an interval."""
STANDARD_ERRORS = 2.262
"""The standard errors in half of a 95 % interval of a mean of ten replays."""
REPLAYS_MIN = 10
"""The fewest replays whose packing has an interval that is narrow enough to count."""


@dataclass(frozen=True)
class Result:
    """The figures of all policies in one window, by name. They are means over replays."""

    window: Window
    policies: dict[str, Json]
    wait: float
    """The dollars of a pending pod-hour."""
    replays: int
    constants: list[Json]
    """The constants, by falling waiting; on several instance types, the best ones for each type."""

    def part(self, name: str, part: str) -> float:
        """Returns a part of a policy's bill, in pending pod-hours."""
        return float(self.policies[name]["bill"].get(part, 0.0)) / self.wait

    @property
    def waiting(self) -> float:
        """Returns the pending pod-hours under reactive."""
        return pod_hours(self.policies["reactive"])


Part = Callable[[Result], tuple[float, float]]
"""A figure of a window and what it is divided by, so that both can be summed over windows."""


def ratio(results: list[Result], part: Part) -> float:
    """Returns the sum over windows of the first value of `part`, divided by that of the second."""
    parts = [part(result) for result in results]
    whole = sum(second for _, second in parts)
    return sum(first for first, _ in parts) / whole if whole else 0.0


def pod_hours(policy: Json) -> float:
    """Returns the hours that pods were pending."""
    return float(policy["pending_pod_hours"])


def removed(name: str) -> Part:
    """Returns, for a window, the pending pod-hours that a policy removes, and those of reactive."""
    return lambda result: (result.waiting - pod_hours(result.policies[name]), result.waiting)


def hidden(name: str) -> Part:
    """Returns, for a window, the pods that waited at most one scan, and all pods."""
    return lambda result: (
        result.policies[name]["pods_hidden_share"] * result.policies[name]["pods"],
        result.policies[name]["pods"],
    )


def launches(name: str) -> Part:
    """Returns, for a window, the launches of a policy and of reactive."""
    return lambda result: (result.policies[name]["launches"], result.policies["reactive"]["launches"])


def bill(name: str, *parts: str) -> Part:
    """Returns, for a window, parts of a policy's bill, and the waiting of reactive, in pending pod-hours."""
    return lambda result: (sum(result.part(name, part) for part in parts), result.waiting)


def packing(results: list[Result], name: str) -> tuple[float, float]:
    """Returns the packing of a policy as a share of reactive's waiting, and half of its 95 % interval over replays."""
    errors = [
        (result.policies[name].get("stderr") or {"bill": {"packing": 0.0}})["bill"]["packing"] / result.wait for result in results
    ]
    whole = sum(result.waiting for result in results)
    half = STANDARD_ERRORS * sum(one * one for one in errors) ** 0.5 / whole if whole else 0.0
    return ratio(results, bill(name, "packing")), half


def cost_part(results: list[Result], name: str) -> Part:
    """Returns the cost of a policy: waiting, idling, launching and warm pools, and packing where its interval excludes zero."""
    share, half = packing(results, name)
    enough = all(result.replays >= REPLAYS_MIN for result in results)
    counts = ("packing",) if enough and abs(share) > half > 0 else ()
    return bill(name, "waiting", "idling", "launching", "warm_pool", *counts)


def cost(results: list[Result], name: str) -> float:
    """Returns the extra cost of a policy, as a share of the cost of reactive's waiting."""
    return ratio(results, cost_part(results, name))


def nodes(name: str) -> Part:
    """Returns, for a window, the dollars of nodes beyond reactive, and 1."""
    parts = ("idling", "launching", "warm_pool", "packing")
    return lambda result: (sum(result.policies[name]["bill"].get(part, 0.0) for part in parts), 1.0)


def break_even(name: str) -> Part:
    """Returns, for a window, the dollars beyond reactive, and the pending pod-hours removed."""
    return lambda result: (nodes(name)(result)[0], removed(name)(result)[0])


def interval(results: list[Result], part: Part) -> tuple[float, float]:
    """Returns the 95 % interval of a ratio, by resampling windows."""
    draw = random.Random(1)
    values = sorted(ratio(draw.choices(results, k=len(results)), part) for _ in range(DRAWS))
    return values[DRAWS // 40], values[-DRAWS // 40 - 1]


def between(points: list[tuple[float, float]], at: float) -> float | None:
    """Returns the height at `at` of the line through points, or None outside of them."""
    for (left, low), (right, high) in pairwise(sorted(points)):
        if left <= at <= right:
            return low + (at - left) / (right - left) * (high - low) if left < right else low
    return None


def constants_dollars(results: list[Result], name: str) -> float | None:
    """Returns the dollars of nodes that constants need for as little waiting as a policy, or None if they need more than all."""
    dollars = []
    for result in results:
        reactive = result.policies["reactive"]
        points = [(pod_hours(one), one["dollars"] - reactive["dollars"]) for one in [reactive, *result.constants]]
        dollars.append(between(points, pod_hours(result.policies[name])))
    return None if None in dollars else sum(one for one in dollars if one is not None)


def constants_hidden(results: list[Result], name: str) -> float:
    """Returns the share of pods that constants hide for the dollars of a policy.

    Where it pays less than all or more than all, they are those of the cheapest or the dearest.
    """
    pods = 0.0
    for result in results:
        reactive = result.policies["reactive"]
        points = [(one["dollars"], one["pods_hidden_share"] * one["pods"]) for one in [reactive, *result.constants]]
        paid = [one for one, _ in points]
        pods += between(points, min(max(result.policies[name]["dollars"], min(paid)), max(paid))) or 0.0
    return pods / float(sum(result.policies[name]["pods"] for result in results))


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(share: float | None, digits: int = 1) -> str:
    """Returns a share as a percentage."""
    return "-" if share is None else f"{100 * share:.{digits}f}"


def dollars(amount: float | None) -> str:
    """Returns whole dollars."""
    return "-" if amount is None else f"{amount:.0f}"


def halves(results: list[Result]) -> tuple[list[Result], list[Result]]:
    """Returns the held-out windows, and the open ones."""
    held_out = [result for result in results if result.window.held_out]
    return held_out, [result for result in results if not result.window.held_out]


def cost_interval(results: list[Result], name: str) -> str:
    """Returns the extra cost of a policy with its interval by windows, in %."""
    part = cost_part(results, name)
    low, high = interval(results, part)
    return f"{percent(ratio(results, part))} ({percent(low)} to {percent(high)})"


COLUMNS = [
    "pod-hours off, %",
    "pods hidden, %",
    "launches x",
    "idling, %",
    "launching, %",
    "packing, %",
    "nodes, $",
    "constants', $",
    "breaks even at $",
]
"""The columns of `cells`."""


def cells(results: list[Result], name: str) -> list[str]:
    """Returns the figures of a policy that every table of policies has."""
    share, half = packing(results, name)
    return [
        percent(ratio(results, removed(name))),
        percent(ratio(results, hidden(name))),
        f"{ratio(results, launches(name)):.2f}",
        percent(ratio(results, bill(name, "idling"))),
        percent(ratio(results, bill(name, "launching"))),
        f"{percent(share)} ± {percent(half)}" if half else percent(share),
        dollars(sum(nodes(name)(result)[0] for result in results)),
        dollars(constants_dollars(results, name)),
        f"{ratio(results, break_even(name)):.2f}",
    ]


def claims(results: dict[str, list[Result]]) -> str:
    """Returns a sentence for each log: the waiting before and after, and what it costs."""
    lines = []
    for log, of_log in results.items():
        before = sum(result.waiting for result in of_log)
        after = sum(pod_hours(result.policies["ensemble"]) for result in of_log)
        more = sum(nodes("ensemble")(result)[0] for result in of_log)
        whole = sum(result.policies["reactive"]["dollars"] for result in of_log)
        days = sum(result.window.end - result.window.start for result in of_log)
        paid = f"${abs(more):,.0f} ({abs(100 * more / whole):.1f} %) {'more' if more > 0 else 'less'}"
        worth = (
            f", which is worth it where an hour of a waiting pod costs more than ${more / (before - after):.2f}" if more > 0 else ""
        )
        waits = f"{after:,.0f}" if after >= 10 else f"{after:.1f}"
        line = f"- **{log}**, {days} days: pods wait {waits} hours instead of {before:,.0f}, and the nodes cost {paid}{worth}."
        lines.append(fill(line, 100, subsequent_indent="  "))
    return "\n".join(lines)


def overview(results: dict[str, list[Result]]) -> str:
    """Returns the first table: a few policies on all logs."""
    head = ["log, policy", *COLUMNS, "cost, held out, %", "cost, open, %"]
    rows = []
    for log, of_log in results.items():
        for name in SHOWN:
            costs = [percent(cost(half, name)) for half in halves(of_log)]
            rows.append([f"{log}, `{name}`", *cells(of_log, name), *costs])
    return table(head, rows)


def references(results: dict[str, list[Result]]) -> str:
    """Returns the table of the default beside the best policy of each kind, which is chosen in hindsight."""
    rows = []
    for log, of_log in results.items():
        row = [log, percent(cost(of_log, "ensemble"))]
        for names in (["burst:10m:4"], CONSTANTS, SIMPLE, METHODS):
            best = min(names, key=lambda name: cost(of_log, name))
            row.append(percent(cost(of_log, best)) + ("" if len(names) == 1 else f" `{best}`"))
        low, high = interval(of_log, cost_part(of_log, "ensemble"))
        rows.append([*row, f"{percent(low)} to {percent(high)}"])
    return table(
        ["log", "`ensemble`", "`burst:10m:4`", "best constant", "best simple rule", "best single method", "interval of `ensemble`"],
        rows,
    )


def levels(results: dict[str, list[Result]]) -> str:
    """Returns the table of the service levels."""
    rows = []
    for log, of_log in results.items():
        for name in OURS[1:]:
            rows.append(
                [
                    f"{log}, `{name}`",
                    percent(ratio(of_log, hidden(name))),
                    percent(constants_hidden(of_log, name)),
                    dollars(sum(nodes(name)(result)[0] for result in of_log)),
                    dollars(constants_dollars(of_log, name)),
                ]
            )
    return table(
        ["log, level", "pods hidden, %", "by constants for the same dollars, %", "nodes, $", "constants' for the same waiting, $"],
        rows,
    )


def warm_pools(results: dict[str, list[Result]]) -> str:
    """Returns the table of warm pools on all logs."""
    head = [
        "log, policy",
        "pod-hours off, %",
        "launches x",
        "idling, %",
        "launching, %",
        "warm pool, %",
        "packing, %",
        "nodes and pool, $",
    ]
    head += ["breaks even at $", "cost, held out, %", "cost, open, %"]
    rows = []
    for log, of_log in results.items():
        for name in ["ensemble", *WARM]:
            rows.append(
                [
                    f"{log}, `{name}`",
                    percent(ratio(of_log, removed(name))),
                    f"{ratio(of_log, launches(name)):.2f}",
                    *(percent(ratio(of_log, bill(name, part))) for part in ("idling", "launching", "warm_pool")),
                    f"{percent(packing(of_log, name)[0])} ± {percent(packing(of_log, name)[1])}",
                    dollars(sum(nodes(name)(result)[0] for result in of_log)),
                    f"{ratio(of_log, break_even(name)):.2f}",
                    *(cost_interval(half, name) for half in halves(of_log)),
                ]
            )
    return table(head, rows)


def knowledge(results: dict[str, list[Result]]) -> str:
    """Returns the table of what more knowledge of the future is worth: the extra cost on each log."""
    known = [
        ("the past", "ensemble"),
        ("the past, and which of the running jobs end within the lead time", "ends"),
        ("the past, and the arrival rates of the next half hour", "rates:0.9"),
        ("the next jobs of users active in the last ten minutes, and no others", "jobs:active"),
        ("the next jobs of all other users", "jobs:others"),
        ("all next jobs, and their ends", "oracle"),
    ]
    rows = [[knows, f"`{name}`", *(percent(cost(of_log, name)) for of_log in results.values())] for knows, name in known]
    return table(["known", "policy", *results], rows)


def page(log: Log, results: list[Result], unneeded: dict[str, list[Result]], forecasts: str, paper: str) -> str:
    """Returns the page of a log."""
    head = ["policy", *COLUMNS, "cost, % (interval by window)"]
    rows = [[f"`{name}`", *cells(results, name), cost_interval(results, name)] for name in [*POLICIES[1:], *KNOWN]]
    for span, of_span in unneeded.items():
        name = f"`reactive`, unneeded after {span}"
        rows.append([name, *cells(of_span, "unneeded"), cost_interval(of_span, "unneeded")])
    shown = ("constant:4", "burst:10m:4", *OURS, "rates:0.9", "oracle")
    windows = []
    for result in results:
        policies, window = result.policies, result.window
        windows.append(
            [
                f"days {window.start} to {window.end}, {'held out' if window.held_out else 'open'}",
                f"{policies['reactive']['jobs']:.0f}",
                f"{policies['reactive']['pending_minutes']['sum']:.0f}",
                f"{pod_hours(policies['reactive']):.1f}",
                *(percent(cost([result], name)) for name in shown),
            ]
        )
    head_windows = ["window", "jobs", "pending minutes", "pending pod-hours", *(f"`{name}`" for name in shown)]
    return f"""# Evaluation: {log.name}

[The evaluation](../evaluation.md) explains the columns. They are sums over all windows.

![Waiting and the bill under each policy]({log.name}.svg)

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
    """Draws pending pod-hours over the bill of nodes, both relative to reactive."""
    figure = Figure(figsize=(7.2, 4.2), layout="tight")
    axes = figure.subplots()

    def points(names: list[str]) -> tuple[list[float], list[float]]:
        paid = [100 * ratio(results, bill(name, "idling", "launching")) for name in names]
        return paid, [100 * (1 - ratio(results, removed(name))) for name in names]

    axes.plot(*points(["reactive", *CONSTANTS]), "o-", color="#888888", label="constants")
    axes.plot(*points(OURS[1:]), "s-", color="#1f77b4", label="ensemble, service levels")
    axes.plot(*points(["burst:10m:4", "burst:5m"]), "^", color="#9467bd", label="bursts")
    axes.plot(*points(["by-hour:4"]), "v", color="#8c564b", label="constant by hour")
    axes.plot(*points(["rates:0.9"]), "D", color="#2ca02c", label="known rates")
    axes.plot(*points(["oracle"]), "*", color="#ff7f0e", markersize=12, label="oracle")
    paid, waiting = points(["ensemble"])
    axes.plot(paid, waiting, "s", color="#d62728", markersize=9, label="ensemble, the default")
    most = max(points([*OURS, "constant:8"])[0])
    axes.set_xlim(-0.02 * most, 1.1 * most)
    axes.set_ylim(0, 105)
    axes.set_xlabel("price of idling and launching nodes beyond reactive's, % of that of its waiting")
    axes.set_ylabel("pending pod-hours, % of reactive's")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    with rc_context({"svg.hashsalt": "prophet"}):
        figure.savefig(file, metadata={"Date": None})


def read(results: Path, window: Window, suffix: str = "") -> Result:
    """Returns the figures of a window."""
    report = json.loads((results / f"{window.name}{suffix}.json").read_text())
    policies = {policy["name"]: policy for policy in report["policies"]}
    found = results / f"{window.name}-constants.json"
    constants = json.loads(found.read_text())["policies"] if found.exists() else []
    constants = constants or [policies[name] for name in CONSTANTS if name in policies]
    return Result(window, policies, report["wait_dollars_per_pod_hour"], report["settings"]["replays"], constants)


def with_policies(result: Result, more: dict[str, Json]) -> Result:
    """Returns a window with more policies, which do not replace others."""
    return replace(result, policies={**more, **result.policies})


def with_known(results: Path, result: Result) -> Result:
    """Returns the window with the references that know some of the future.

    They ran once, so their hours and bills are scaled by the waiting under reactive in that run.
    """
    known = read(results, result.window, "-known")
    scale = result.waiting / known.waiting if known.waiting else 1.0

    def scaled(policy: Json) -> Json:
        bill = {part: scale * dollars for part, dollars in policy["bill"].items()}
        return {**policy, "bill": bill, "pending_pod_hours": scale * pod_hours(policy)}

    return with_policies(result, {name: scaled(policy) for name, policy in known.policies.items()})


def with_warm(results: Path, result: Result) -> Result:
    """Returns the window with the policies over warm pools, which ran on the same submissions."""
    return with_policies(result, read(results, result.window, "-warm").policies)


def with_unneeded(results: Path, of_log: list[Result], span: str) -> list[Result]:
    """Returns the windows with `unneeded`, the autoscaler that removes nodes after `span`."""
    changed = []
    for result in of_log:
        other = read(results, result.window, f"-unneeded-{span}").policies["reactive"]
        reactive = result.policies["reactive"]
        # The run has no reactive of its own to compare with, so all dollars of nodes count as idling.
        waiting = result.wait * (other["weighted_pod_hours"] - reactive["weighted_pod_hours"])
        parts = {"waiting": waiting, "idling": other["dollars"] - reactive["dollars"], "launching": 0.0, "packing": 0.0}
        changed.append(with_policies(result, {"unneeded": {**other, "bill": parts, "stderr": None}}))
    return changed


def main(results: Path, folder: Path) -> None:
    """Writes all pages."""
    pages = folder / "evaluation"
    pages.mkdir(exist_ok=True)

    def window_of(window: Window) -> Result:
        return with_warm(results, with_known(results, read(results, window)))

    of_logs = {log.name: [window_of(window) for window in log.windows()] for log in LOGS}
    for log in LOGS:
        of_log = of_logs[log.name]
        unneeded = {span: with_unneeded(results, of_log, span) for span in UNNEEDED}
        forecasts = (results / f"{log.name}.txt").read_text()
        (pages / f"{log.name}.md").write_text(page(log, of_log, unneeded, forecasts, paper(results) if log == LOGS[0] else ""))
        plot(of_log, pages / f"{log.name}.svg")
    replays = json.loads((results / f"{LOGS[0].windows()[0].name}.json").read_text())["settings"]["replays"]
    figures = "\n\n".join(
        f"[{log.name}](evaluation/{log.name}.md):\n\n![Waiting and the bill](evaluation/{log.name}.svg)" for log in LOGS
    )
    parts = {
        "replays": str(replays),
        "claims": claims(of_logs),
        "overview": overview(of_logs),
        "references": references(of_logs),
        "levels": levels(of_logs),
        "figures": figures,
        "warm": warm_pools(of_logs),
        "knowledge": knowledge(of_logs),
    }
    prose = (HERE / "prose.md").read_text()
    for name, text in parts.items():
        prose = prose.replace("{{" + name + "}}", text)
    (folder / "evaluation.md").write_text(prose)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [results, folder]:
            main(Path(results), Path(folder))
        case _:
            sys.exit(__doc__)
