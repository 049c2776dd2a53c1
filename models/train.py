"""Trains a network:
`python models/train.py --ticks target/models/ticks --out target/models/quantile`.

The ticks are the CSV files of `prophet trace ticks`, or a recorded history (`--history`). Runs with
the same ticks and seed on the CPU of the same machine give the same weights. With `--checkpoint`, a run that
was interrupted goes on from the last check. Under `torchrun`, each process takes an equal share of
every batch.
"""

import argparse
import hashlib
import json
import os
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import networks
import plots
from checkpoint import Checkpoint
from data import DAY, HORIZON, STRIDE, Corpus, Ints, Series, read_history, read_ticks, without_last
from distributed import Processes
from networks import Examples, Network
from splits import CONTEXT, SHARES, SHARES_HELD_OUT, known_splits, parts

DAYS_MIN = 7
"""The shortest history in days beside the days that are held out: one of every day of the week."""
TOO_SHORT = 3
"""The exit code for a shorter one. It is no failure, because time alone mends it."""

SHAPE = ("window", "horizon", "layers")
"""The options that are fields of the configuration of a network."""

PREPARING_BATCHES, PREPARING_ROWS = 16, 2_048
"""The number and the size of the batches that a network sees before the training. Together they are more examples than the
training range of Philly has.
"""

VALIDATION_ROWS_MIN = 64
"""The fewest rows of a validation batch. Fewer would choose the weights by chance."""


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

    For a joint network, an example has all buckets of one cluster at the same time. Of each batch,
    this process has its share; all processes draw the same batches.
    """

    def __init__(
        self, series: list[Series], config: TrainConfig, network: Network, device: str, processes: Processes | None = None
    ) -> None:
        self.config, self.joint, self.device = config, network.joint, device
        self.processes = processes or Processes()
        corpora = [Corpus(series, lead, network.config.window) for lead in config.leads] if series else []
        # No need is known within a lead time that is shorter than the ticks of the history. The
        # controller has no such lead time, either.
        self.corpora = [corpus for corpus in corpora if any(map(len, corpus.positions))]
        # Of a bucket that was in use only recently, the range of the training may be empty.
        usable = [at for at in range(len(series)) if all(len(corpus.positions[at]) for corpus in self.corpora)]
        if not self.corpora or not usable:
            raise SystemExit("there are too few ticks: no bucket has a moment with half an hour of ticks after it")
        logs = sorted({series[at].log for at in usable})
        self.by_log = [[at for at in usable if series[at].log == log] for log in logs]

    def draw(self, random_state: np.random.Generator, batch: int, buckets: int) -> Examples:
        """Returns `batch` rows.

        Rows that are not joint have `buckets` buckets, which share only the time of week.
        """
        corpus, share = self.corpora[random_state.integers(len(self.corpora))], self.processes.share(batch)
        if self.joint:
            first = random_state.choice(corpus.positions[0], batch)[share]
            return Examples.of(corpus.batch(corpus.beside(first).ravel()), len(corpus.series), self.device)
        drawn = np.array([self._position(corpus, random_state) for _ in range(batch * buckets)])
        young = random_state.random(len(drawn)) < self.config.young_share
        ages: Ints = np.where(young, np.exp(random_state.uniform(np.log(120), np.log(7 * DAY), len(drawn))), 1e9).astype(int)
        at = corpus.aligned(drawn.reshape(batch, buckets)[share]).ravel()
        return Examples.of(corpus.batch(at, ages.reshape(batch, buckets)[share].ravel()), buckets, self.device)

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


def fit(
    network: Network,
    training: Sampler,
    validation: list[Examples],
    config: TrainConfig,
    checkpoint: Path | None = None,
) -> Curve:
    """Trains until the checks do not improve. Keeps the weights of the best check, or the moving
    average of the weights at the end if the network has one.

    The first check is of the untrained network. After each check, the file `checkpoint` gets the
    state of the training. If it exists at the beginning, the training goes on from there.
    """
    random_state = np.random.default_rng(config.seed)
    optimizer, schedule = network.optimizer(config.rate, config.steps_max)
    averaged = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(network.averaging)).eval()
    parts = {"network": network, "averaged": averaged, "optimizer": optimizer, "schedule": schedule}
    begins = digest(network, training) if checkpoint else ""
    named = {"network": network.name, "shape": repr(network.config), "averaging": network.averaging}
    settings = asdict(config) | named | {"begins": begins}
    kept = Checkpoint(path=checkpoint, settings=settings, parts=parts, draws=random_state)
    curve, best, best_loss, since_best, first = Curve(steps=[], train=[], validate=[]), {}, float("inf"), 0, 0
    if progress := kept.restore(training.device):
        curve, best = Curve(**progress["curve"]), progress["best"]
        best_loss, since_best, first = progress["best_loss"], progress["since_best"], progress["step"]
        print(f"going on after step {first - 1}", flush=True)
    processes, loss_of = training.processes, training.processes.loss(network)
    recent: list[float] = []
    for step in range(first, config.steps_max + 1):
        network.train()
        loss = loss_of(training.draw(random_state, config.batch, int(random_state.choice(config.buckets))))
        recent.append(loss.item())
        is_check = step % config.check_every == 0
        if is_check:
            with torch.no_grad():
                checked = processes.mean([averaged.module.loss(examples).item() for examples in validation], training.device)
            curve.steps.append(step)
            curve.train.append(processes.mean(recent, training.device))
            curve.validate.append(checked)
            recent.clear()
            if processes.rank == 0:
                print(f"step {step:6}  train {curve.train[-1]:.4g}  validate {checked:.4g}", flush=True)
            since_best = 0 if checked < best_loss else since_best + 1
            if since_best == 0:
                best_loss, best = checked, {name: value.clone() for name, value in averaged.module.state_dict().items()}
            if since_best == config.patience:
                break
        if step < config.steps_max:
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            averaged.update_parameters(network)
        if is_check:
            judged = {"curve": asdict(curve), "best": best, "best_loss": best_loss, "since_best": since_best}
            kept.save(judged | {"step": step + 1})
    network.load_state_dict(averaged.module.state_dict() if network.averaging else best)
    network.eval()
    return curve


def preparing(training: Sampler) -> list[Examples]:
    """Returns the batches that a network sees before the training, the same in all processes."""
    draws = np.random.default_rng(training.config.seed)
    return [training.draw(draws, PREPARING_ROWS, 1) for _ in range(PREPARING_BATCHES)]


def digest(network: Network, training: Sampler) -> str:
    """Returns a hash of the weights and the ticks that a training begins with."""
    content = hashlib.sha256()
    for value in network.state_dict().values():
        content.update(value.cpu().numpy().tobytes())
    for corpus in training.corpora:
        content.update(corpus.maxima.tobytes())
        content.update(corpus.time.tobytes())
    return content.hexdigest()


def read_series(arguments: argparse.Namespace) -> list[Series]:
    """Returns all series of the arguments, except those of the log that is left out."""
    if arguments.history:
        series = without_last(read_history(arguments.history, arguments.catalog, "own"), arguments.hold_out_days)
        days = max((len(one) for one in series), default=0) / DAY
        if arguments.hold_out_days and days < DAYS_MIN:
            held_out = f"{arguments.history}: {days:.1f} days precede the {arguments.hold_out_days:g} days that are held out"
            print(f"{held_out}, but training needs {DAYS_MIN}: wait until there is more history", file=sys.stderr)
            raise SystemExit(TOO_SHORT)
        return series
    series = [one for path in sorted(arguments.ticks.glob("*.csv")) for one in read_ticks(path, path.name.split(".")[0])]
    return [one for one in series if one.log != arguments.leave_out]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--ticks", type=Path, metavar="DIR", help="CSV files of `prophet trace ticks`, NAME[.VARIANT].csv")
    source.add_argument("--history", type=Path, metavar="FILE", help="a Parquet file of `prophet history export`")
    parser.add_argument(
        "--catalog",
        type=Path,
        metavar="FILE",
        help="with --history: `prophet catalog --output json` [default: the sizes in the history]",
    )
    parser.add_argument(
        "--hold-out-days",
        type=float,
        default=0.0,
        metavar="N",
        help="with --history: leave out the last days, to compare models on them",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder for weights, configuration and plots")
    parser.add_argument("--network", choices=networks.NAMES, default="quantile")
    parser.add_argument("--window", type=int, metavar="N", help="the length of the input in ticks of five minutes")
    parser.add_argument("--horizon", type=int, metavar="N", help="the number of ticks that a Transformer forecasts, up to 6")
    parser.add_argument(
        "--layers",
        type=int,
        metavar="N",
        help="the number of layers of a Transformer; with 0 and --steps 0, transformer-differences is its regression alone",
    )
    parser.add_argument(
        "--from",
        "--from-pretrained",
        dest="start",
        type=Path,
        metavar="PATH",
        help="start from these weights: a folder that this program wrote, or a file of `export.py --weights`",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="write the state at each check, and go on from this file if it exists; removed at the end",
    )
    parser.add_argument("--leave-out", metavar="NAME", help="the name of a log to leave out")
    parser.add_argument("--seed", type=int, default=TrainConfig.seed)
    parser.add_argument(
        "--steps", type=int, default=TrainConfig.steps_max, help="largest number of steps; with 0, only what precedes the training"
    )
    parser.add_argument("--check-every", type=int, default=TrainConfig.check_every, help="steps between two checks")
    parser.add_argument("--batch", type=int, default=TrainConfig.batch, help="rows per step, of all processes together")
    arguments = parser.parse_args()
    if arguments.hold_out_days and not arguments.history:
        parser.error("--hold-out-days requires --history")
    if arguments.start and any(getattr(arguments, name) is not None for name in SHAPE):
        parser.error("--window, --horizon and --layers are those of the weights of --from")
    if arguments.horizon and (arguments.horizon not in range(1, HORIZON + 1) or "transformer" not in arguments.network):
        parser.error(f"--horizon is for a Transformer, from 1 to {HORIZON}")
    if arguments.layers is not None and (arguments.layers < 0 or "transformer" not in arguments.network):
        parser.error("--layers is for a Transformer, 0 or more")
    if arguments.window and not 1 <= arguments.window <= CONTEXT // STRIDE:
        parser.error(f"--window is not in 1 to {CONTEXT // STRIDE}")
    if arguments.checkpoint and "RANK" in os.environ:
        parser.error("--checkpoint is for one process, because several may have no common disk")
    return arguments


def main() -> None:
    arguments, processes = parse_arguments(), Processes.join()
    random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    # For networks of this size, several threads are slower than one.
    torch.set_num_threads(1)
    splits, series = known_splits(), read_series(arguments)
    shares = SHARES_HELD_OUT if arguments.hold_out_days else SHARES
    trained_on = parts(series, "train", splits, shares)
    fresh = arguments.start is None
    shape = {name: value for name in SHAPE if (value := getattr(arguments, name)) is not None}
    network = networks.new(arguments.network, trained_on, **shape) if fresh else networks.load(arguments.start)
    device = processes.device()
    network.to(device)
    # Trained weights need a lower rate.
    rate = TrainConfig.rate if fresh else TrainConfig.rate / 10
    # Without a check, there would be no weights to keep.
    check_every = max(1, min(arguments.check_every, arguments.steps))
    config = TrainConfig(seed=arguments.seed, steps_max=arguments.steps, rate=rate, check_every=check_every, batch=arguments.batch)

    training = Sampler(trained_on, config, network, device, processes)
    validating = Sampler(parts(series, "validate", splits, shares), config, network, device)
    validating_state = np.random.default_rng(0)
    rows = max(config.batch, VALIDATION_ROWS_MIN)
    validation = [validating.draw(validating_state, rows, 1) for _ in range(config.validation_batches)]
    if fresh:
        network.prepare(lambda: preparing(Sampler(trained_on, config, network, device)))
    # Each process drops out other neurons.
    torch.manual_seed(arguments.seed + processes.rank)
    if processes.rank == 0:
        print(f"{network.describe()}; {len(series)} series of {len(training.by_log)} logs; {processes.count} processes")
    curve = fit(network, training, validation[processes.rank :: processes.count], config, arguments.checkpoint)
    if processes.rank == 0:
        write(network, curve, validation, arguments.out, asdict(config) | {"logs": sorted({one.log for one in series})})
    if arguments.checkpoint:
        arguments.checkpoint.unlink(missing_ok=True)
    processes.end()


def write(network: Network, curve: Curve, validation: list[Examples], out: Path, training: dict[str, Any]) -> None:
    """Writes the weights, the settings, the curve and the plots into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    network.save(out, training=training)
    (out / "curve.json").write_text(json.dumps(asdict(curve)) + "\n")
    plots.learning_curve(curve.steps, curve.train, curve.validate, out / "learning.png")
    plots.calibration(*network.calibration(validation), out / "calibration.png")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
