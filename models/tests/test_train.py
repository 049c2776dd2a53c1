"""A complete training run, on synthetic ticks of almost three days."""

import json
import sys
from pathlib import Path

import pytest

import networks
import train
from data import COLUMNS
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
