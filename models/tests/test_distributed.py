"""Training in two processes on this machine, which torchrun starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data import COLUMNS
from tests.test_data import series

MODELS = Path(__file__).parents[1]


def run(processes: int, *arguments: str) -> str:
    """Runs a program in some processes; returns what they print."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(torchrun if processes > 1 else []), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, cwd=MODELS, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-3_000:]
    return result.stdout


def gradients(processes: int, folder: Path) -> dict[str, Any]:
    file = folder / f"{processes}.pt"
    run(processes, "-m", "tests.gradients", str(file))
    found: dict[str, Any] = torch.load(file, weights_only=True)
    assert (found["rows"], found["count"]) == (32 // processes, processes)
    return found["gradients"]


def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    one, two = gradients(1, tmp_path), gradients(2, tmp_path)
    assert one.keys() == two.keys() and len(one) > 20
    for name, expected in one.items():
        # Sums in another order differ by rounding, relative to the largest of them.
        most = float(expected.abs().max())
        assert most > 0.0, name
        np.testing.assert_allclose(two[name], expected, rtol=1e-4, atol=1e-5 * most, err_msg=name)


@pytest.mark.parametrize("network", [["quantile"], ["lstm"], ["transformer", "--window", "12", "--layers", "1"]])
def test_two_processes_train_one_network(network: list[str], tmp_path: Path) -> None:
    one = series(4_000)
    rows = [f"{one.start + 60 * at},a,{','.join(str(one.columns[column][at]) for column in COLUMNS)}" for at in range(len(one))]
    (tmp_path / "log.csv").write_text("\n".join(["time,bucket," + ",".join(COLUMNS), *rows]))
    argv = [
        "train.py",
        "--network",
        *network,
        "--ticks",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
        "--steps",
        "4",
        "--check-every",
        "2",
        "--batch",
        "4",
    ]
    printed = run(2, *argv)
    assert printed.count("2 processes") == 1 and printed.count("wrote") == 1
    curve = json.loads((tmp_path / "out" / "curve.json").read_text())
    assert curve["steps"] == [0, 2, 4] and np.isfinite(curve["validate"]).all()
