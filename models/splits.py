"""Which ticks of a log are trained on, which stop the training, and which judge: in the order of time.

A log that `logs.json` does not name is cut at 60 and 70 % of its length. Where it is named, all that `make evaluate` counts lies in
the test range.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from data import DAY, REMEMBERED, STRIDE, WINDOW, Series

Part = Literal["train", "validate", "test"]

CONTEXT = REMEMBERED + WINDOW * STRIDE
"""So much of what precedes a part is seen, and not judged."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Days since the first tick of a log."""

    skip_days: float
    """What precedes is left out."""
    train_days: float
    validate_days: float


def known_splits() -> dict[str, Split]:
    """The splits of the logs that `make train` knows, by name."""
    text = Path(__file__).with_name("logs.json").read_text()
    return {log: Split(**fields) for log, fields in json.loads(text).items()}


def part(series: Series, name: Part, splits: dict[str, Split]) -> Series:
    """A part of a series, with the context that precedes it."""
    days = len(series) / DAY
    default = Split(skip_days=0.0, train_days=0.6 * days, validate_days=0.7 * days)
    split = splits.get(series.log, default)
    skip, trained, validated = (round(DAY * at) for at in (split.skip_days, split.train_days, split.validate_days))
    begin, end = {"train": (skip, trained), "validate": (trained, validated), "test": (validated, len(series))}[name]
    context = min(begin - skip, CONTEXT)
    return series.part(begin - context, end, context)


def parts(series: Sequence[Series], name: Part, splits: dict[str, Split]) -> list[Series]:
    """A part of each series."""
    return [part(one, name, splits) for one in series]
