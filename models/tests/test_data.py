"""Tests of examples: their inputs, their targets, and that no target leaks into the inputs."""

import json
import runpy
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from data import DAY, STATE, Corpus, Series, needs, read_history, read_ticks, trailing_max, without_last
from splits import SHARES_HELD_OUT, Split, known_splits, part

FLOAT = np.float32


def series(ticks: int, seed: int = 1) -> Series:
    draw = np.random.default_rng(seed)
    demand = draw.poisson(5.0, ticks).astype(FLOAT)
    columns = {
        "demand": demand,
        "demand_max": demand + draw.poisson(1.0, ticks).astype(FLOAT),
        "arrivals": draw.gamma(1.0, 1.0, ticks).astype(FLOAT),
        "room_mean": draw.gamma(1.0, 1.0, ticks).astype(FLOAT),
        "room_most": draw.gamma(1.0, 1.0, ticks).astype(FLOAT),
    }
    return Series(log="made up", bucket="a", start=1_700_000_040, columns=columns)


def test_needs_are_the_largest_demand_within_the_lead_less_present_demand() -> None:
    demand, most = np.array([1, 2, 1, 5, 4], FLOAT), np.array([1, 3, 2, 6, 5], FLOAT)
    np.testing.assert_array_equal(needs(demand, most, 2), [2, 4, 5, np.nan, np.nan])
    np.testing.assert_array_equal(trailing_max(most, 3), [1, 3, 3, 6, 6])


def test_features_match_their_definitions() -> None:
    one, lead = series(9 * DAY), 6
    corpus, now = Corpus([one], lead), 8 * DAY + 100
    batch = corpus.batch(np.array([corpus.begin[-1] + now]))
    state = dict(zip(STATE, batch.state[0].tolist(), strict=True))
    column = one.columns
    need = needs(column["demand"], column["demand_max"], lead)
    past = need[now - lead + 1 - 8 * DAY : now - lead + 1]
    assert state["demand"] == column["demand"][now]
    assert (state["lead_seconds"], state["history_days"]) == (360.0, 8.0)
    assert state["room_most"] == column["room_most"][now]
    assert state["arrivals_10m"] == pytest.approx(column["arrivals"][now - 9 : now + 1].sum(), rel=1e-5)
    assert state["need_2"] == pytest.approx((past >= 2).mean(), rel=1e-5)
    assert state["need_week_ago"] == pytest.approx(need[now - 7 * DAY - 30 : now - 7 * DAY + 31].mean(), rel=1e-5)
    assert batch.target[0, -1] == column["demand_max"][now - 4 : now + 1].max()
    assert batch.ahead[0, 1] == column["demand_max"][now + 6 : now + 11].max()
    assert batch.time[0, -1] == one.start + 60 * now


def made_up(ticks: int) -> Series:
    """Returns the series of `features.json`.

    The test of `crates/demand/src/forecast/onnx/state.rs` computes the same series.
    """
    at = np.arange(ticks)
    demand = 7_919 * at % 1_013 % 9
    columns = {
        "demand": demand,
        "demand_max": demand + (at % 4 == 0) + 6 * (at % 97 == 0),
        "arrivals": 0.5 * (at % 3),
        "room_mean": 0.5 * (at % 7),
        "room_most": 0.5 * (at % 7),
    }
    return Series(
        log="a", bucket="a", start=1_700_000_040, columns={name: values.astype(FLOAT) for name, values in columns.items()}
    )


@pytest.mark.parametrize("moment", json.loads(Path(__file__).with_name("features.json").read_text())["moments"])
def test_the_inputs_of_training_equal_those_of_the_controller(moment: dict[str, Any]) -> None:
    """The controller's test compares its inputs with the same file."""
    corpus = Corpus([made_up(12 * DAY + 60)], moment["lead_ticks"])
    batch = corpus.batch(np.array([corpus.begin[-1] + moment["now"]]))
    missing = float("nan")
    expected = [missing if moment["state"][name] is None else moment["state"][name] for name in STATE]
    np.testing.assert_allclose(batch.state[0], expected, rtol=1e-5)
    target = [missing if most is None else most for most in moment["target"]]
    np.testing.assert_array_equal(batch.target[0, -len(target) :], target)


def test_the_future_does_not_change_the_inputs() -> None:
    one, now = series(3 * DAY), 2 * DAY
    other = {name: np.concatenate([values[: now + 1], values[now + 1 :] + 9]) for name, values in one.columns.items()}
    changed = Series(log=one.log, bucket=one.bucket, start=one.start, columns=other)
    first, second = (Corpus([some], 6).batch(np.array([288 * 5 + now])) for some in (one, changed))
    np.testing.assert_array_equal(first.target, second.target)
    np.testing.assert_array_equal(first.state, second.state)
    assert first.need[0] != second.need[0]


def test_a_history_cut_by_age_equals_a_short_history() -> None:
    one, now = series(3 * DAY), 2 * DAY
    age = 200
    young = Corpus([one], 6).batch(np.array([288 * 5 + now]), np.array([age]))
    fresh = Corpus([one.part(now - age, 3 * DAY, 0)], 6).batch(np.array([288 * 5 + age]))
    np.testing.assert_array_equal(young.state, fresh.state)


def test_parts_are_in_order_of_time_and_share_no_example() -> None:
    one = series(10 * DAY)
    earlier = set()
    for name in ("train", "validate", "test"):
        cut = part(one, name, {"made up": Split(skip_days=1, train_days=5, validate_days=7)})
        corpus = Corpus([cut], 6)
        times = set(corpus.time[corpus.positions[0]].tolist())
        assert times and not times & earlier
        assert not earlier or min(times) > max(earlier)
        earlier |= times


def test_nothing_that_is_evaluated_is_trained_on() -> None:
    windows = runpy.run_path(str(Path(__file__).parents[2] / "evaluation" / "windows.py"))
    splits = known_splits()
    starts = {log.name: min(log.starts) for log in windows["LOGS"] if log.name in splits}
    assert len(starts) == 4
    for log, start in starts.items():
        assert splits[log].train_days < splits[log].validate_days <= start, log


def test_ticks_of_a_trace_equal_those_of_a_history(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "time,bucket,demand,demand_max,arrivals,room_mean,room_most\n60,m,1,2,0.75,0.5,0.75\n120,m,3,3,0,0,0\n60,idle,0,0,0,0,0\n"
    )
    arrivals = json.dumps({"cpu_millis=500,pods=1": 1, "cpu_millis=1500,memory_bytes=1,pods=1": 1})
    room = json.dumps({"cpu_millis=500,pods=1": 1, "cpu_millis=1000,pods=1": 1.5})
    duckdb.sql(
        f"""COPY (SELECT * FROM (VALUES
        (make_timestamp(60000000), 'm', 1, 2, '{room}', '{arrivals}', '{offered(1000)}'),
        (make_timestamp(120000000), 'm', 3, 3, NULL, NULL, '{offered(2000)}'),
        (make_timestamp(120000000), NULL, NULL, NULL, NULL, NULL, NULL))
        AS t(time, bucket, demand, demand_max, room, arrivals, offered)) TO '{tmp_path / "history.parquet"}'"""
    )
    (tmp_path / "catalog.json").write_text(offered(2000))
    (traced,) = read_ticks(tmp_path / "log.csv", "log")
    (recorded,) = read_history(tmp_path / "history.parquet", tmp_path / "catalog.json", "log")
    assert (traced.bucket, traced.start) == (recorded.bucket, recorded.start) == ("m", 60)
    assert recorded.columns["arrivals"].tolist() == [1.0, 0.0]
    assert recorded.columns["room_mean"].tolist() == [0.5, 0.0]
    for name in ("demand", "demand_max", "room_most"):
        np.testing.assert_array_equal(traced.columns[name], recorded.columns[name])
    # Without a catalog, a node has the size that was offered last.
    (own,) = read_history(tmp_path / "history.parquet", None, "log")
    assert own.columns["arrivals"].tolist() == [1.0, 0.0]


def offered(cpu_millis: int) -> str:
    return json.dumps({"buckets": [{"name": "m", "allocatable": {"cpu_millis": cpu_millis}}]})


def test_the_last_days_are_held_out_of_every_bucket_at_the_same_time() -> None:
    long, late = series(5 * DAY), series(2 * DAY)
    late = Series(log="own", bucket="b", start=long.start + 60 * 3 * DAY, columns=late.columns)
    new = Series(log="own", bucket="c", start=long.start + 60 * 4 * DAY, columns=series(DAY).columns)
    kept = without_last([long, late, new], 1.0)
    assert [(one.bucket, len(one)) for one in kept] == [("a", 4 * DAY), ("b", DAY)]
    assert len({one.start + 60 * len(one) for one in kept}) == 1
    # All the rest is for training and validation.
    train, validate = (part(kept[0], name, {}, SHARES_HELD_OUT) for name in ("train", "validate"))
    assert (len(train), len(validate) - validate.context) == (round(3.4 * DAY), round(0.6 * DAY))
