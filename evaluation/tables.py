"""Prints the tables of docs/evaluation.md that combine several runs, from `prophet --output json`.

- `tables.py summary FILE...`: one row per simulation, with the default policy and its references
- `tables.py coverage NAME,NAME FILE...`: one row per forecaster, with two columns per backtest
"""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def summary(simulations: list[Json]) -> None:
    """Prints the figures of `ensemble` and its references on each log."""
    print_row(
        "log",
        "reduction of waiting, %",
        "extra idle, %",
        "idle relative to a constant with equal waiting, %",
        "extra cost, %",
        "extra cost of the cheapest `rates:Q`, %",
        "extra cost of the oracle, %",
    )
    print_row(*["---"] * 7)
    for simulation in simulations:
        policies = {policy["name"]: policy for policy in simulation["policies"]}
        reactive, ensemble, oracle = policies["reactive"], policies["ensemble"], policies["oracle"]
        constants = [policy for name, policy in policies.items() if name.startswith("constant:")]
        rates = [policy for name, policy in policies.items() if name.startswith("rates:")]
        relative = idle_over_constant(ensemble, [reactive, *constants])
        print_row(
            Path(simulation["trace"]).name.split("-")[0],
            f"{100 * (1 - pending(ensemble) / pending(reactive)):.1f}",
            f"{100 * ensemble['extra_idle']:.2f}",
            "-" if relative is None else f"{100 * relative:.0f}",
            extra_cost(ensemble),
            f"{100 * min(policy['extra_cost'] for policy in rates):.1f}",
            f"{100 * oracle['extra_cost']:.1f}",
        )


def pending(policy: Json) -> float:
    """Returns the minutes that jobs were pending, summed over jobs."""
    return float(policy["pending_minutes"]["sum"])


def extra_cost(policy: Json) -> str:
    """Returns the extra cost in %, with its standard error if there is more than one replay."""
    mean = f"{100 * policy['extra_cost']:.1f}"
    return f"{mean} ± {100 * policy['stderr']['extra_cost']:.1f}" if "stderr" in policy else mean


def idle_over_constant(policy: Json, constants: list[Json]) -> float | None:
    """Returns the extra idle time relative to that of a constant with equal waiting, less one.

    The idle time of that constant is interpolated between `constants`, which are in ascending
    order. Returns `None` if they all wait longer, or if that constant has no extra idle time.
    """
    for less, more in pairwise(constants):
        if pending(more) <= pending(policy):
            part = (pending(less) - pending(policy)) / (pending(less) - pending(more))
            equal = less["extra_idle"] + part * (more["extra_idle"] - less["extra_idle"])
            return policy["extra_idle"] / equal - 1 if equal > 0 else None
    return None


def coverage(names: list[str], backtests: list[Json]) -> None:
    """Prints the extremes of the coverage of D over any seven days, in %, at each quantile."""
    quantiles = [backtest["settings"]["policy"]["objective"]["quantile"] for backtest in backtests]
    print_row("forecaster", *(f"{share} {quantile}, %" for quantile in quantiles for share in ("below", "at most")))
    print_row("---", *["---"] * (2 * len(quantiles)))
    for name in names:
        scores = [score_of_d(name, backtest)["coverage_over_7_days"] for backtest in backtests]
        shares = [score[share] for score in scores for share in ("most_below", "least_at_most")]
        print_row(name, *(f"{100 * share:.1f}" for share in shares))


def score_of_d(name: str, backtest: Json) -> Json:
    """Returns the score of the forecasts of D, the new nodes needed within the lead time."""
    return next(score for score in backtest["forecast"] if (score["name"], score["horizon"]) == (name, "D"))


def print_row(*cells: str) -> None:
    """Prints one row of a Markdown table."""
    print(f"| {' | '.join(cells)} |")


def read(files: list[str]) -> list[Json]:
    """Returns the object of each file."""
    return [json.loads(Path(file).read_text()) for file in files]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["summary", *files]:
            summary(read(files))
        case ["coverage", names, *files]:
            coverage(names.split(","), read(files))
        case _:
            sys.exit(__doc__)
