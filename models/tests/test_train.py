"""A complete training run, on synthetic ticks of almost three days."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

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
    monkeypatch.setattr(train, "VALIDATION_ROWS_MIN", 4)
    train.main()
    assert {path.name for path in out.iterdir()} >= {"weights.pt", "config.json", "curve.json", "learning.png", "calibration.png"}
    assert json.loads((out / "config.json").read_text())["training"]["logs"] == ["log"]
    assert networks.load(out).name == name


@pytest.mark.parametrize("name", networks.NAMES)
def test_an_interrupted_training_goes_on_as_if_it_had_not_been_interrupted(name: str, tmp_path: Path) -> None:
    config = train.TrainConfig(steps_max=4, check_every=2, batch=4)

    def trained(checkpoint: Path, steps: int | None = None) -> tuple[train.Curve, dict[str, list[float]]]:
        torch.manual_seed(1)
        one = [series(4_000)]
        network = networks.new(name, one, **({"window": 48, "layers": 1, "width": 8} if "transformer" in name else {}))
        sampler = train.Sampler(one, config, network, "cpu")
        drawn = 0

        def draw(random_state: np.random.Generator, batch: int, buckets: int) -> networks.Examples:
            nonlocal drawn
            drawn += 1
            if steps is not None and drawn > steps:
                raise KeyboardInterrupt
            return train.Sampler.draw(sampler, random_state, batch, buckets)

        validation = [sampler.draw(np.random.default_rng(0), 4, 1)]
        sampler.draw = draw  # type: ignore[method-assign]
        curve = train.fit(network, sampler, validation, config, checkpoint)
        return curve, {name: weights.flatten().tolist() for name, weights in network.state_dict().items()}

    whole = trained(tmp_path / "whole.pt")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "parts.pt", 4)
    assert trained(tmp_path / "parts.pt") == whole
    assert whole[0].steps == [0, 2, 4]
    config = train.TrainConfig(steps_max=5, check_every=2, batch=4)
    with pytest.raises(SystemExit, match="is of another training"):
        trained(tmp_path / "parts.pt")


class Falling(networks.Network):
    """A network with one weight, which falls by 1 in each step. Its checks become worse."""

    name = "falling"
    averaging = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(window=48)
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def loss(self, _: networks.Examples) -> torch.Tensor:
        return (0.5 if self.training else -0.5) * self.weight

    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        descent = torch.optim.SGD(self.parameters(), lr=2.0)
        return descent, torch.optim.lr_scheduler.ConstantLR(descent, 1.0)


def test_the_moving_average_of_the_weights_is_checked_and_kept_at_the_end() -> None:
    """The weights are 0, -1, -2 and -3. The average begins with the first step."""
    network, config = Falling(), train.TrainConfig(steps_max=3, check_every=2, batch=4)
    sampler = train.Sampler([series(4_000)], config, network, "cpu")
    curve = train.fit(network, sampler, [sampler.draw(np.random.default_rng(0), 4, 1)], config)
    assert curve.validate == [0.0, 0.75]
    assert network.weight.item() == -2.25
    assert not network.training, "the plots are drawn without dropout"


def test_ticks_of_five_minutes_are_examples_of_the_longer_lead_times() -> None:
    one = series(2 * DAY)
    at_ticks = np.arange(len(one)) % 5 == 0
    columns = {name: np.where(at_ticks, values, np.nan).astype(np.float32) for name, values in one.columns.items()}
    slow = Series(log="own", bucket="a", start=one.start, columns=columns)
    sampler = train.Sampler([slow], train.TrainConfig(), networks.new("quantile", []), "cpu")
    assert [corpus.lead for corpus in sampler.corpora] == [6, 11]
    examples = sampler.draw(np.random.default_rng(1), 8, 1)
    assert bool(torch.isfinite(examples.need).all())
    with pytest.raises(SystemExit, match="too few ticks"):
        train.Sampler([slow.part(0, 20, 0)], train.TrainConfig(), networks.new("quantile", []), "cpu")
