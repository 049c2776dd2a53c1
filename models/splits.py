"""The split of a log into training, validation and test range, in the order of time.

The validation range decides when training stops, and the test range is for the evaluation. A log
that `logs.json` does not name is cut at 60 and 70 % of its length. For a log that it names, the
test range begins with the first window that `make evaluate` evaluates, so nothing at or after that
time is used for training or for stopping. The ticks `philly-paper` are those of the paper's
networks, which are evaluated on the last week only.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from data import DAY, REMEMBERED, STRIDE, WINDOW, Series

Part = Literal["train", "validate", "test"]

CONTEXT = REMEMBERED + WINDOW * STRIDE
"""Ticks before a part that are inputs only: those that the oldest feature and window need."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Where the ranges of a log end, in days since its first tick."""

    skip_days: float
    """Ticks before this are left out."""
    train_days: float
    validate_days: float


def known_splits() -> dict[str, Split]:
    """Returns the splits of the logs of `make train`, by name."""
    text = Path(__file__).with_name("logs.json").read_text()
    return {log: Split(**fields) for log, fields in json.loads(text).items()}


SHARES = (0.6, 0.7)
"""The shares of a log that end its training and validation range, if it has no split of its own."""
SHARES_HELD_OUT = (0.85, 1.0)
"""The same for a history whose last days were held out: they are the test range."""


def part(series: Series, name: Part, splits: dict[str, Split], shares: tuple[float, float] = SHARES) -> Series:
    """Returns a part of a series, with the context that precedes it."""
    days = len(series) / DAY
    default = Split(skip_days=0.0, train_days=shares[0] * days, validate_days=shares[1] * days)
    split = splits.get(series.log, default)
    skip, trained, validated = (round(DAY * at) for at in (split.skip_days, split.train_days, split.validate_days))
    begin, end = {"train": (skip, trained), "validate": (trained, validated), "test": (validated, len(series))}[name]
    context = min(begin - skip, CONTEXT)
    return series.part(begin - context, end, context)


def parts(series: Sequence[Series], name: Part, splits: dict[str, Split], shares: tuple[float, float] = SHARES) -> list[Series]:
    """Returns a part of each series."""
    return [part(one, name, splits, shares) for one in series]
