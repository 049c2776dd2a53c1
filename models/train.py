"""Trains a network:
`python models/train.py --ticks target/models/ticks --out target/models/quantile`.

The ticks are the CSV files of `prophet trace ticks`, or a recorded history (`--history`, with
`--catalog`). Runs with the same ticks and seed on the same machine give the same weights.
"""

import argparse
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

import networks
import plots
from data import DAY, Corpus, Ints, Series, read_history, read_ticks
from networks import Examples, Network
from splits import known_splits, parts


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a training run."""

    seed: int = 1
    steps_max: int = 3_000
    batch: int = 256
    buckets: tuple[int, ...] = (1, 1, 2, 4)
    """The number of buckets per row; each batch draws one of these."""
    leads: tuple[int, ...] = (3, 6, 11)
    """Lead times in ticks of a minute: launches of two, five and ten minutes, with a tick and a
    scan.
    """
    rate: float = 2e-3
    young_share: float = 0.3
    """The share of examples whose history is cut to an age between two hours and a week."""
    check_every: int = 250
    """Steps between two checks of the validation loss."""
    patience: int = 10
    """Number of checks in a row without a lower validation loss that end the training."""
    validation_batches: int = 32


class Sampler:
    """Draws examples: each log with the same probability, and each bucket of a log too.

    With `joint`, an example has all buckets of one cluster at the same time.
    """

    def __init__(self, series: list[Series], config: TrainConfig, joint: bool, device: str) -> None:
        self.config, self.joint, self.device = config, joint, device
        self.corpora = [Corpus(series, lead) for lead in config.leads]
        logs = sorted({one.log for one in series})
        self.by_log = [[at for at, one in enumerate(series) if one.log == log] for log in logs]

    def draw(self, random_state: np.random.Generator, batch: int, buckets: int) -> Examples:
        """Returns `batch` rows.

        Rows that are not joint have `buckets` buckets, which share only the time of week.
        """
        corpus = self.corpora[random_state.integers(len(self.corpora))]
        if self.joint:
            first = random_state.choice(corpus.positions[0], batch)
            return Examples.of(corpus.batch(corpus.beside(first).ravel()), len(corpus.series), self.device)
        drawn = np.array([self._position(corpus, random_state) for _ in range(batch * buckets)])
        at = corpus.aligned(drawn.reshape(batch, buckets)).ravel()
        young = random_state.random(len(at)) < self.config.young_share
        ages: Ints = np.where(young, np.exp(random_state.uniform(np.log(120), np.log(7 * DAY), len(at))), 1e9).astype(int)
        return Examples.of(corpus.batch(at, ages), buckets, self.device)

    def _position(self, corpus: Corpus, random_state: np.random.Generator) -> int:
        of_log = self.by_log[random_state.integers(len(self.by_log))]
        positions = corpus.positions[of_log[random_state.integers(len(of_log))]]
        return int(positions[random_state.integers(len(positions))])


@dataclass(kw_only=True)
class Curve:
    """Losses by step."""

    steps: list[int]
    train: list[float]
    validate: list[float]


def fit(network: Network, training: Sampler, validation: list[Examples], config: TrainConfig) -> Curve:
    """Trains until the checks do not improve, and keeps the best weights."""
    random_state = np.random.default_rng(config.seed)
    optimizer, schedule = network.optimizer(config.rate, config.steps_max)
    curve, best, best_loss, since_best = Curve(steps=[], train=[], validate=[]), {}, float("inf"), 0
    recent: list[float] = []
    for step in range(1, config.steps_max + 1):
        network.train()
        examples = training.draw(random_state, config.batch, int(random_state.choice(config.buckets)))
        loss = network.loss(examples)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if step % config.check_every:
            continue
        network.eval()
        with torch.no_grad():
            checked = float(np.mean([network.loss(examples).item() for examples in validation]))
        curve.steps.append(step)
        curve.train.append(float(np.mean(recent)))
        curve.validate.append(checked)
        recent.clear()
        print(f"step {step:6}  train {curve.train[-1]:.4f}  validate {checked:.4f}", flush=True)
        since_best = 0 if checked < best_loss else since_best + 1
        if since_best == 0:
            best_loss, best = checked, {name: value.clone() for name, value in network.state_dict().items()}
        if since_best == config.patience:
            break
    network.load_state_dict(best)
    return curve


def read_series(arguments: argparse.Namespace) -> list[Series]:
    """Returns all series of the arguments, except those of the log that is left out."""
    if arguments.history:
        return read_history(arguments.history, arguments.catalog, "own")
    series = [one for path in sorted(arguments.ticks.glob("*.csv")) for one in read_ticks(path, path.name.split(".")[0])]
    return [one for one in series if one.log != arguments.leave_out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--ticks", type=Path, metavar="DIR", help="CSV files of `prophet trace ticks`, NAME[.VARIANT].csv")
    source.add_argument("--history", type=Path, metavar="FILE", help="a Parquet file of `prophet history export`")
    parser.add_argument("--catalog", type=Path, metavar="FILE", help="with --history: `prophet catalog --output json`")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder for weights, configuration and plots")
    parser.add_argument("--network", choices=networks.NAMES, default="quantile")
    parser.add_argument("--from-pretrained", type=Path, metavar="DIR", help="start from the weights of this folder")
    parser.add_argument("--leave-out", metavar="NAME", help="the name of a log to leave out")
    parser.add_argument("--seed", type=int, default=TrainConfig.seed)
    parser.add_argument("--steps", type=int, default=TrainConfig.steps_max, help="largest number of steps")
    parser.add_argument("--check-every", type=int, default=TrainConfig.check_every, help="steps between two checks")
    parser.add_argument("--batch", type=int, default=TrainConfig.batch, help="rows per step")
    arguments = parser.parse_args()
    if arguments.history and not arguments.catalog:
        parser.error("--history requires --catalog")

    random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    # For networks of this size, several threads are slower than one.
    torch.set_num_threads(1)
    splits, series = known_splits(), read_series(arguments)
    trained_on = parts(series, "train", splits)
    fresh = arguments.from_pretrained is None
    network = networks.new(arguments.network, trained_on) if fresh else networks.load(arguments.from_pretrained)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device)
    # Trained weights need a lower rate.
    rate = TrainConfig.rate if fresh else TrainConfig.rate / 10
    config = TrainConfig(
        seed=arguments.seed, steps_max=arguments.steps, rate=rate, check_every=arguments.check_every, batch=arguments.batch
    )

    training = Sampler(trained_on, config, network.joint, device)
    validating = Sampler(parts(series, "validate", splits), config, network.joint, device)
    validating_state = np.random.default_rng(0)
    validation = [validating.draw(validating_state, config.batch, 1) for _ in range(config.validation_batches)]
    print(f"{network.describe()}; {len(series)} series of {len(training.by_log)} logs")
    curve = fit(network, training, validation, config)

    arguments.out.mkdir(parents=True, exist_ok=True)
    network.save(arguments.out, training=asdict(config) | {"logs": sorted({one.log for one in series})})
    (arguments.out / "curve.json").write_text(json.dumps(asdict(curve)) + "\n")
    plots.learning_curve(curve.steps, curve.train, curve.validate, arguments.out / "learning.png")
    plots.calibration(*network.calibration(validation), arguments.out / "calibration.png")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
