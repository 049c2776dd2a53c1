"""Recomputes the figures of `prophet simulate --out DIR` from its CSV files: `recompute.py DIR`.

It reads figures.json for the window, the prices and the printed figures, and jobs.csv, nodes.csv and
warm.csv of each replay for the rest. It needs only the standard library. It prints one row per policy, and
the exit code is 1 if a figure differs from the printed one.
"""

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Row = dict[str, str]
Figures = dict[str, float]

HOUR = 3600.0
TOLERANCE = 1e-6
"""The largest relative difference, because figures.json has nine significant digits."""


def figures(jobs: list[Row], nodes: list[Row], warm: list[Row], report: Json) -> Figures:
    """Returns the figures of one policy in one replay."""
    start, end = report["window"]["from"], report["window"]["until"]
    prices = {entry["name"]: entry for entry in report["instance_types"]}
    scan = seconds(report["settings"]["scan"])
    waits = [int(job["wait_s"]) for job in jobs]
    started = [job for job in jobs if int(job["start"]) >= 0]
    last = max([end, *(int(job["start"]) for job in started)])
    launches = [node for node in nodes if start <= int(node["requested"]) < last]
    used = [node for node in launches if node["used"] == "true"]
    pods = sum(int(job["pods"]) for job in jobs)
    alive = idle = dollars = idling = launching = packing = 0.0
    for node in nodes:
        price = prices[node["bucket"]]
        gone = end if node["gone"] == "-1" else int(node["gone"])
        ready = gone if node["ready"] == "-1" else int(node["ready"])
        hours = overlap(ready, gone, start, end) / HOUR
        unused = hours - int(node["busy_s"]) / HOUR
        alive += hours
        idle += unused
        hourly = price["idle_dollars_per_hour"]
        dollars += overlap(int(node["requested"]), gone, start, end) / HOUR * hourly
        launching += overlap(int(node["requested"]), ready, start, end) / HOUR * hourly
        idling += unused * hourly
        packing += int(node["busy_s"]) / HOUR * hourly
    pool = sum(of_warm(instance, report, prices) for instance in warm)
    dollars += pool
    return {
        "jobs": len(jobs),
        "jobs_never_started": len(jobs) - len(started),
        "interruptions": sum(node["interrupted"] == "true" and start <= int(node["gone"]) < end for node in nodes),
        "interrupted_pods": sum(int(job["interrupted_pods"]) for job in jobs),
        "lost_pod_hours": sum(int(job["lost_pod_s"]) for job in jobs) / HOUR,
        "pending_minutes": sum(waits) / 60.0,
        "pending_pod_hours": sum(int(job["wait_s"]) * int(job["pods"]) for job in jobs) / HOUR,
        "jobs_hidden_share": share(sum(int(job["wait_s"]) <= scan for job in started), len(jobs)),
        "pods": pods,
        "pods_hidden_share": share(sum(int(job["pods_hidden"]) for job in jobs), pods),
        "launches": len(launches),
        "used_launches": len(used),
        "used_launches_hidden_share": share(sum(node["waited_for"] == "false" for node in used), len(used)),
        "instance_hours": alive,
        "idle_instance_hours": idle,
        "dollars": dollars,
        "bill.idling": idling,
        "bill.launching": launching,
        "bill.warm_pool": pool,
        "bill.packing": packing,
    }


def beyond(policy: Figures, reactive: Figures, wait_dollars: float) -> Figures:
    """Returns the figures that compare a policy with `reactive` in the same replay."""
    removed = reactive["pending_pod_hours"] - policy["pending_pod_hours"]
    bill = {part: policy[f"bill.{part}"] - reactive[f"bill.{part}"] for part in ("idling", "launching", "warm_pool", "packing")}
    waiting = reactive["pending_pod_hours"] * wait_dollars
    idle = policy["idle_instance_hours"] - reactive["idle_instance_hours"]
    return {
        "extra_idle": share(idle, reactive["instance_hours"]),
        "extra_cost": share(bill["idling"] + bill["launching"] + bill["warm_pool"] - removed * wait_dollars, waiting),
        "extra_packing": share(bill["packing"], waiting),
        "break_even_dollars": (policy["dollars"] - reactive["dollars"]) / removed if removed > 0 else math.nan,
        "bill.waiting": -removed * wait_dollars,
        **{f"bill.{part}": dollars for part, dollars in bill.items()},
        "launches_ratio": share(policy["launches"], reactive["launches"]),
    }


def of_warm(instance: Row, report: Json, prices: Json) -> float:
    """Returns the price of an instance of a warm pool: it runs while it is prepared, and costs a share while it is stopped."""
    start, end = report["window"]["from"], report["window"]["until"]
    gone = end if instance["gone"] == "-1" else int(instance["gone"])
    stopped = gone if instance["stopped"] == "-1" else int(instance["stopped"])
    hours = overlap(int(instance["requested"]), stopped, start, end) / HOUR
    hours += float(report["settings"]["warmShare"]) * overlap(stopped, gone, start, end) / HOUR
    return hours * float(prices[instance["bucket"]]["idle_dollars_per_hour"])


def overlap(since: int, until: int, start: int, end: int) -> int:
    """Returns the seconds from `since` to `until` that are within the window."""
    return max(0, min(until, end) - max(since, start))


def share(part: float, whole: float) -> float:
    """Returns the quotient, or NaN if there is none."""
    return part / whole if whole else math.nan


def seconds(span: str) -> int:
    """Returns the seconds of a span such as `10s`, `5m` or `1h`."""
    return int(span[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[span[-1]]


def by_policy(file: Path) -> dict[str, list[Row]]:
    """Returns the rows of a file by their policy."""
    rows: dict[str, list[Row]] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            rows.setdefault(row["policy"], []).append(row)
    return rows


def recompute(folder: Path, report: Json) -> dict[str, Figures]:
    """Returns the means over replays of the figures of each policy."""
    replays = sorted(folder.glob("replay-*")) or [folder]
    sums: dict[str, list[Figures]] = {}
    for replay in replays:
        jobs, nodes, warm = (by_policy(replay / f"{name}.csv") for name in ("jobs", "nodes", "warm"))
        names = [policy["name"] for policy in report["policies"]]
        own = {name: figures(jobs.get(name, []), nodes.get(name, []), warm.get(name, []), report) for name in names}
        for name in names:
            compared = beyond(own[name], own["reactive"], report["wait_dollars_per_pod_hour"])
            sums.setdefault(name, []).append(own[name] | compared)
    means = {name: {key: mean([run[key] for run in runs]) for key in runs[0]} for name, runs in sums.items()}
    for name, runs in sums.items():
        if packing_counts([run["extra_packing"] for run in runs]):
            means[name]["extra_cost"] += means[name]["extra_packing"]
    return means


def packing_counts(shares: list[float]) -> bool:
    """Whether there are ten replays, and the 95 % interval of the packing excludes zero (Student's t)."""
    if len(shares) < 10:
        return False
    center = mean(shares)
    error = math.sqrt(math.fsum((one - center) ** 2 for one in shares) / (len(shares) - 1) / len(shares))
    return abs(center) > 2.262 * error


def mean(values: list[float]) -> float:
    """Returns the mean."""
    return math.fsum(values) / len(values)


def printed(policy: Json, key: str) -> float:
    """Returns a figure of figures.json, in which NaN is null."""
    group, _, part = key.partition(".")
    value = policy["pending_minutes"]["sum"] if key == "pending_minutes" else policy[group]
    value = value[part] if part else value
    return math.nan if value is None else float(value)


def differs(found: float, expected: float) -> bool:
    """Whether a figure differs from the printed one by more than rounding."""
    if math.isnan(found) or math.isnan(expected):
        return math.isnan(found) != math.isnan(expected)
    return abs(found - expected) > TOLERANCE * max(1.0, abs(expected))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    report = json.loads((folder / "figures.json").read_text())
    found = recompute(folder, report)
    faults = 0
    for policy in report["policies"]:
        own = found[policy["name"]]
        print(f"{policy['name']}: " + ", ".join(f"{key} {value:.6g}" for key, value in own.items()))
        for key, value in own.items():
            if differs(value, printed(policy, key)):
                faults += 1
                print(f"  {key}: figures.json has {printed(policy, key):.9g}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
