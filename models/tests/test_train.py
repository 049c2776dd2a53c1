"""A complete training run, on synthetic ticks of almost three days."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import networks
import train
from data import COLUMNS, DAY, Series
from tests.test_data import series


@pytest.mark.parametrize("name", networks.NAMES)
def test_training_writes_weights_configuration_and_plots(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = series(4_000)
    rows = [f"{one.start + 60 * at},a,{','.join(str(one.columns[column][at]) for column in COLUMNS)}" for at in range(len(one))]
    (tmp_path / "log.csv").write_text("\n".join(["time,bucket," + ",".join(COLUMNS), *rows]))
    out = tmp_path / "out"
    argv = ["--ticks", str(tmp_path), "--network", name, "--out", str(out), "--steps", "4", "--check-every", "2", "--batch", "4"]
    monkeypatch.setattr(sys, "argv", ["train.py", *argv])
    train.main()
    assert {path.name for path in out.iterdir()} >= {"weights.pt", "config.json", "curve.json", "learning.png", "calibration.png"}
    assert json.loads((out / "config.json").read_text())["training"]["logs"] == ["log"]
    assert networks.load(out).name == name


def test_ticks_of_five_minutes_are_examples_of_the_longer_lead_times() -> None:
    one = series(2 * DAY)
    at_ticks = np.arange(len(one)) % 5 == 0
    columns = {name: np.where(at_ticks, values, np.nan).astype(np.float32) for name, values in one.columns.items()}
    slow = Series(log="own", bucket="a", start=one.start, columns=columns)
    sampler = train.Sampler([slow], train.TrainConfig(), False, "cpu")
    assert [corpus.lead for corpus in sampler.corpora] == [6, 11]
    examples = sampler.draw(np.random.default_rng(1), 8, 1)
    assert bool(torch.isfinite(examples.need).all())
    with pytest.raises(SystemExit, match="too few ticks"):
        train.Sampler([slow.part(0, 20, 0)], train.TrainConfig(), False, "cpu")
