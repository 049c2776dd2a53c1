"""Ticks of a cluster as examples: a window of demand, the state, and the demand that followed.

Reads the CSV files of `prophet trace ticks` and the Parquet files of the controller
(`docs/history.md`). All lengths here are in ticks of a minute, and a tick of a model is `STRIDE` of
them. The features of the state have the names and the definitions of
`crates/demand/src/forecast/onnx/state.rs`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

TICK_SECONDS = 60
"""Seconds of a tick of the controller."""
STRIDE = 5
"""Ticks of the controller in a tick of a model: five minutes, as in the paper."""
WINDOW = 288
"""Ticks of a model in its input: a day."""
HORIZON = 6
"""Ticks of a model that are forecast: half an hour."""
DAY = 86_400 // TICK_SECONDS
"""Ticks of a day."""
REMEMBERED = 8 * DAY
"""Age in ticks up to which past needs are counted: a week, and a day to spare."""
AROUND = 30
"""Ticks either way of a past moment that count as the same time of day: half an hour."""
THRESHOLDS = (1, 2, 4, 8, 16, 32, 64)
"""Thresholds in nodes. The fraction of past needs that reach each threshold is a feature."""
STATE = (
    "demand",
    "lead_seconds",
    "history_days",
    "room_mean",
    "room_most",
    "arrivals_10m",
    "arrivals_1h",
    "arrivals_1d",
    "need_day_ago",
    "need_week_ago",
    *(f"need_{nodes}" for nodes in THRESHOLDS),
)
ARRIVALS = {"arrivals_10m": 10, "arrivals_1h": 60, "arrivals_1d": DAY}
"""Ticks over which each feature sums the arrivals."""
COLUMNS = ("demand", "demand_max", "arrivals", "room_mean", "room_most")


@dataclass(frozen=True, kw_only=True)
class Series:
    """One bucket of one log, with one value per minute."""

    log: str
    bucket: str
    start: int
    """Unix seconds of the first tick."""
    columns: dict[str, Floats]
    """Values by column name; the names are `COLUMNS`."""
    context: int = 0
    """Number of ticks at the start that are inputs only, and not examples."""

    def __len__(self) -> int:
        return len(self.columns["demand"])

    def part(self, begin: int, end: int, context: int) -> "Series":
        """Returns the ticks from `begin` to before `end`. The first `context` ticks are context."""
        columns = {name: values[begin:end] for name, values in self.columns.items()}
        start = self.start + begin * TICK_SECONDS
        return Series(log=self.log, bucket=self.bucket, start=start, columns=columns, context=context)


def read_ticks(path: Path, log: str) -> list[Series]:
    """Returns the buckets of a CSV file of `prophet trace ticks` that were ever in use."""
    rows = duckdb.sql(f"SELECT * FROM read_csv('{path}') ORDER BY bucket, time").fetchnumpy()
    return list(_by_bucket(rows, log))


def read_history(path: Path, catalog: Path | None, log: str) -> list[Series]:
    """Returns the buckets of a history that were ever in use.

    `path` is a Parquet file of `prophet history export`. The sizes of nodes are those that the
    history has, or those of `catalog`, the output of `prophet catalog --output json`. Histories of
    early builds contain the requests of pods, but not the sizes of nodes.
    """
    sizes = _sizes(path) if catalog is None else _allocatable(catalog.read_text())
    query = f"""SELECT epoch(time)::BIGINT // {TICK_SECONDS} * {TICK_SECONDS} AS time, bucket, last(demand) AS demand,
        max(demand_max) AS demand_max, last(room) AS room, list(arrivals) AS arrivals
        FROM '{path}' WHERE bucket IS NOT NULL GROUP BY ALL ORDER BY bucket, time"""
    table = duckdb.sql(query).fetchnumpy()
    rooms = [_room(text, sizes.get(bucket, {})) for text, bucket in zip(table["room"], table["bucket"], strict=True)]
    arrivals = [
        sum(nodes for text in texts for nodes in _nodes(text, sizes.get(bucket, {})))
        for texts, bucket in zip(table["arrivals"], table["bucket"], strict=True)
    ]
    mean, most = np.array(rooms, np.float32).reshape(-1, 2).T
    rows = dict(table) | {"room_mean": mean, "room_most": most, "arrivals": np.array(arrivals, np.float32)}
    return list(_by_bucket(rows, log))


def _sizes(path: Path) -> dict[str, dict[str, int]]:
    """Returns the sizes of nodes by bucket, each as it was last offered."""
    query = f"SELECT offered FROM '{path}' WHERE offered IS NOT NULL ORDER BY time"
    sizes: dict[str, dict[str, int]] = {}
    for (text,) in duckdb.sql(query).fetchall():
        sizes |= _allocatable(text)
    if not sizes:
        raise SystemExit(
            f"{path}: the history has no sizes of nodes: give --catalog, the output of `prophet catalog --output json`"
        )
    return sizes


def _allocatable(text: str) -> dict[str, dict[str, int]]:
    return {bucket["name"]: bucket["allocatable"] for bucket in json.loads(text)["buckets"]}


def without_last(series: Sequence[Series], days: float) -> list[Series]:
    """Returns the series without the last days before the newest tick of all of them."""
    ends = [one.start + len(one) * TICK_SECONDS for one in series]
    until = max(ends, default=0) - round(days * 86_400)
    kept = [(one, min(len(one), (until - one.start) // TICK_SECONDS)) for one in series]
    return [one.part(0, length, one.context) for one, length in kept if length > 0]


def _nodes(text: Any, size: dict[str, int]) -> list[float]:
    """Returns pods by shape (JSON text) in nodes: the count times the dominant share of a node."""
    if not isinstance(text, str):
        return []
    return [count * _share(shape, size) for shape, count in json.loads(text).items()]


def _room(text: Any, size: dict[str, int]) -> tuple[float, float]:
    nodes = _nodes(text, size) or [0.0]
    return sum(nodes) / len(nodes), max(nodes)


def _share(shape: str, size: dict[str, int]) -> float:
    pairs = (part.split("=") for part in shape.split(";", maxsplit=1)[0].split(",") if part)
    requests = {name: int(amount) for name, amount in pairs if name != "pods"}
    return max((request / size[name] for name, request in requests.items() if size.get(name)), default=0.0)


def _by_bucket(rows: dict[str, Any], log: str) -> Iterator[Series]:
    """Yields series without gaps: a missing tick has unknown demand (NaN) and no arrivals."""
    for bucket in dict.fromkeys(rows["bucket"]):
        of = rows["bucket"] == bucket
        times = np.asarray(rows["time"][of], np.int64)
        at = (times - times[0]) // TICK_SECONDS
        columns = {name: np.full(at[-1] + 1, np.nan, np.float32) for name in COLUMNS}
        for name, values in columns.items():
            values[at] = np.asarray(rows[name][of], np.float32)
        columns["arrivals"] = np.nan_to_num(columns["arrivals"])
        if np.nanmax(columns["demand_max"]) > 0:
            yield Series(log=log, bucket=str(bucket), start=int(times[0]), columns=columns)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of examples. Counts are in nodes; NaN is a missing value."""

    target: Floats
    """[examples, window]: the maximum of demand in each five minutes."""
    time: Ints
    """[examples, window]: Unix seconds."""
    state: Floats
    """[examples, len(STATE)]."""
    need: Floats
    """[examples]: the new nodes that were needed within the lead time."""
    ahead: Floats
    """[examples, HORIZON]: the maximum of demand in each of the next five minutes."""


class Corpus:
    """Concatenated series, with the precomputed sums that examples are cut from."""

    def __init__(self, series: Sequence[Series], lead: int, window: int = WINDOW) -> None:
        """`lead` is the lead time in ticks: a need covers the `lead` ticks after a moment. `window`
        is the length of an input in ticks of the model.
        """
        self.series, self.lead, self.window = list(series), lead, window
        gap = window * STRIDE
        parts = [_Part.of(one, gap, lead) for one in series]
        lengths = [len(part.demand) for part in parts]
        offsets = np.concatenate([[0], np.cumsum(lengths)])[:-1]
        self.demand: Floats = np.concatenate([part.demand for part in parts])
        self.maxima: Floats = np.concatenate([part.maxima for part in parts])
        self.time: Ints = np.concatenate([part.time for part in parts])
        self.need: Floats = np.concatenate([part.need for part in parts])
        self.room: Floats = np.concatenate([part.room for part in parts], axis=1)
        self.arrivals = _sums(np.nan_to_num(np.concatenate([part.arrivals for part in parts])))
        known = ~np.isnan(self.need)
        self.known = _sums(known.astype(np.float64))
        self.needs = _sums(np.where(known, self.need, 0.0))
        reached = [np.where(known, self.need >= nodes, False) for nodes in THRESHOLDS]
        self.reached = np.stack([_sums(hits.astype(np.float64)) for hits in reached])
        self.origins = offsets + gap
        """The position at which each series begins."""
        self.begin = np.repeat(self.origins, lengths)
        """By position: the position at which its series begins."""
        ahead = HORIZON * STRIDE
        first = np.repeat(offsets + gap + [one.context for one in series], lengths)
        usable = known & ~np.isnan(self.demand) & (np.arange(len(known)) >= first)
        ends = np.repeat(offsets + lengths, lengths)
        usable &= np.arange(len(known)) + ahead < ends
        self.usable = usable
        """Whether an example can be cut, by position."""
        self.positions = [np.flatnonzero(usable[at : at + n]) + at for at, n in zip(offsets, lengths, strict=True)]
        """The positions at which examples can be cut, by series."""

    def batch(self, at: Ints, ages: Ints | None = None) -> Batch:
        """Returns the examples at positions `at`, with a history of at most `ages` ticks each."""
        begin = self.begin[at]
        if ages is not None:
            begin = np.maximum(begin, at - ages)
        back = np.arange(self.window - 1, -1, -1) * STRIDE
        index = at[:, None] - back
        target = np.where(index >= begin[:, None], self.maxima[index], np.nan)
        ahead = self.maxima[at[:, None] + STRIDE * np.arange(1, HORIZON + 1)]
        time = self.time[at][:, None] - back * TICK_SECONDS
        state = self._state(at, begin)
        return Batch(target=target, time=time, state=state, need=self.need[at], ahead=ahead)

    def aligned(self, at: Ints) -> Ints:
        """Moves positions [rows, buckets] back to the time of week of the first one of their row.

        A position without an example at that time stays as it is.
        """
        apart = (self.time[at] - self.time[at[:, :1]]) // TICK_SECONDS % (7 * DAY)
        moved = np.maximum(at - apart, 0)
        return np.where(self.usable[moved] & (self.begin[moved] == self.begin[at]), moved, at)

    def beside(self, at: Ints) -> Ints:
        """Returns positions [rows, series]: those of all series at the times of the first one."""
        shift = [(one.start - self.series[0].start) // TICK_SECONDS for one in self.series]
        return at[:, None] + (self.origins - self.origins[0] - np.array(shift))[None, :]

    def _state(self, at: Ints, begin: Ints) -> Floats:
        closed = at - self.lead + 1
        first = np.minimum(np.maximum(closed - REMEMBERED, begin), closed)
        windows = self.known[closed] - self.known[first]
        share = (self.reached[:, closed] - self.reached[:, first]) / np.where(windows > 0, windows, np.nan)
        features = {
            "demand": self.demand[at],
            "lead_seconds": np.full(len(at), self.lead * TICK_SECONDS),
            "history_days": np.minimum(at - begin + 1, REMEMBERED) / DAY,
            "room_mean": self.room[0, at],
            "room_most": self.room[1, at],
            "need_day_ago": self._around(at - DAY, begin),
            "need_week_ago": self._around(at - 7 * DAY, begin),
        }
        for name, ticks in ARRIVALS.items():
            features[name] = self.arrivals[at + 1] - self.arrivals[np.maximum(at + 1 - ticks, begin)]
        for row, nodes in enumerate(THRESHOLDS):
            features[f"need_{nodes}"] = share[row]
        return np.stack([features[name] for name in STATE], axis=1).astype(np.float32)

    def _around(self, middle: Ints, begin: Ints) -> NDArray[np.float64]:
        """Returns the mean need around a past moment; NaN if the history has no need there."""
        inside = middle - AROUND >= begin
        low, high = np.where(inside, middle - AROUND, 0), np.where(inside, middle + AROUND + 1, 0)
        windows = self.known[high] - self.known[low]
        return (self.needs[high] - self.needs[low]) / np.where(windows > 0, windows, np.nan)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A series after a gap in which all values are missing."""

    demand: Floats
    maxima: Floats
    need: Floats
    arrivals: Floats
    room: Floats
    time: Ints

    @staticmethod
    def of(series: Series, gap: int, lead: int) -> "_Part":
        padded = {name: np.concatenate([np.full(gap, np.nan, np.float32), values]) for name, values in series.columns.items()}
        time = series.start + TICK_SECONDS * (np.arange(len(series) + gap, dtype=np.int64) - gap)
        return _Part(
            demand=padded["demand"],
            maxima=trailing_max(padded["demand_max"], STRIDE),
            need=needs(padded["demand"], padded["demand_max"], lead),
            arrivals=padded["arrivals"],
            room=np.nan_to_num(np.stack([padded["room_mean"], padded["room_most"]])),
            time=time,
        )


def trailing_max(values: Floats, ticks: int) -> Floats:
    """Returns at each tick the largest known value of the last `ticks` ticks."""
    most = values.copy()
    for back in range(1, ticks):
        most[back:] = np.fmax(most[back:], values[:-back])
    return most


def needs(demand: Floats, demand_max: Floats, lead: int) -> Floats:
    """Returns the need at each tick.

    A need is the largest demand of the next `lead` ticks, less present demand. It is at least 0,
    and NaN where it is not known.
    """
    most = np.full_like(demand, np.nan)
    if len(demand) > lead:
        most[:-lead] = trailing_max(demand_max, lead)[lead:]
    return np.maximum(most - demand, 0.0)


def _sums(values: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the sum of the values before each place, and last the sum of all values."""
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
