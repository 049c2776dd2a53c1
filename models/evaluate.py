"""Evaluates models on logs they were not trained on:
`python models/evaluate.py --ticks DIR --networks DIR`.

The DIR of `--networks` has a folder `without-LOG.SEED` for each log that was left out in training,
and each seed. Each model is evaluated on the test range of that log, in nodes of eight units, as
the published reference figures are. Compared with it are the last value (no new nodes are needed),
the empirical quantiles of the needs of the last eight days, and LightGBM, trained on the same logs.
Prints tables in Markdown: means over the seeds and, for losses and errors, the standard deviation
between seeds after ±.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import networks
from data import REMEMBERED, Batch, Corpus, Floats, Series, read_ticks
from gbm import Gbm, GbmConfig
from networks import Examples, Network
from quantile import LEVELS
from splits import known_splits, parts

LEAD = 6
"""The lead time in ticks, for launches of five minutes, with a tick and a scan."""
VARIANT = "u8"
"""The size of a node: eight units, as in the published reference figures."""
EVERY = 5
"""Ticks between two examples of a test range."""
EXAMPLES_MAX = 10_000
"""Largest number of examples of a test range."""
TRAINED = 8_000
"""Examples of each log that LightGBM is trained on."""
HORIZONS = (1, 3, 6)
"""Ticks of the model ahead, for the errors of demand: 5, 15 and 30 minutes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=Path, required=True, metavar="DIR", help="the ticks that training used")
    parser.add_argument(
        "--networks", type=Path, required=True, metavar="DIR", help="folders without-LOG.SEED, as train.py writes them"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    paths = sorted(arguments.ticks.glob("*.csv"))
    series = {path.name: read_ticks(path, path.name.split(".")[0]) for path in paths}
    needs, demand = [], []
    folders = [config.parent for config in sorted(arguments.networks.glob("without-*.*/config.json"))]
    for log in sorted({folder.stem.removeprefix("without-") for folder in folders}):
        corpus = Corpus(parts(series[f"{log}.{VARIANT}.csv"], "test", known_splits()), LEAD)
        at = np.concatenate(corpus.positions)[::EVERY]
        at = at[:: -(-len(at) // EXAMPLES_MAX)]
        batch = corpus.batch(at)
        seeds = [forecast(networks.load(folder), batch) for folder in folders if folder.stem == f"without-{log}"]
        trees = trees_without([one for some in series.values() for one in some if one.log != log])
        methods = {
            "last value": [np.zeros((len(at), len(LEVELS)), np.float32)],
            "last 8 days": [empirical(corpus, at)],
            "LightGBM": [trees.predict(batch)],
            "model": [headroom for _, headroom in seeds],
        }
        needs += [need_row(log, name, batch.need, values) for name, values in methods.items()]
        demand.append(demand_row(log, batch, [quantiles for quantiles, _ in seeds], float(np.nanmax(corpus.maxima))))
    print("| log | method | pinball of D, nodes | P(D < q95), P(D <= q95) | q95, mean nodes |\n| --- | --- | --- | --- | --- |")
    print("\n".join(needs))
    heads = [f"h = {horizon}: last value, model" for horizon in HORIZONS]
    print(f"\n| log | {' | '.join(heads)} |\n| --- |{' --- |' * len(HORIZONS)}")
    print("\n".join(demand))


def forecast(network: Network, batch: Batch) -> tuple[Floats, Floats]:
    """Returns quantiles of demand [examples, horizon, levels] and of needs [examples, levels]."""
    network.eval()
    examples = Examples.of(batch, 1)
    with torch.no_grad():
        quantiles, headroom = network.predict(examples)
    assert headroom is not None
    return quantiles[:, 0].numpy(), headroom[:, 0].numpy()


def empirical(corpus: Corpus, at: np.ndarray) -> Floats:
    """Returns the quantiles of the needs of all windows that ended within the last eight days."""
    rows = []
    for place in at:
        past = corpus.need[max(place - LEAD + 1 - REMEMBERED, corpus.begin[place]) : place - LEAD + 1]
        past = past[~np.isnan(past)]
        rows.append(np.quantile(past, LEVELS, method="inverted_cdf") if len(past) else np.zeros(len(LEVELS)))
    return np.array(rows, np.float32)


def trees_without(series: list[Series]) -> Gbm:
    """Returns LightGBM, trained on the training ranges of the other logs."""
    corpus = Corpus(parts(series, "train", known_splits()), LEAD)
    draw = np.random.default_rng(1)
    logs = sorted({one.log for one in series})
    drawn = []
    for other in logs:
        positions = np.concatenate([p for p, one in zip(corpus.positions, series, strict=True) if one.log == other])
        drawn.append(draw.choice(positions, min(TRAINED, len(positions)), replace=False))
    trees = Gbm(GbmConfig())
    trees.fit(corpus.batch(np.concatenate(drawn)))
    return trees


def need_row(log: str, name: str, need: Floats, seeds: list[Floats]) -> str:
    """Returns a row of the table of needs.

    It has the mean pinball loss over all levels, and the coverage and the mean of the quantile
    0.95, rounded to whole nodes.
    """
    levels = np.array(LEVELS)
    below = [need[:, None] - quantiles for quantiles in seeds]
    pinball = [np.maximum(levels * one, (levels - 1) * one).mean() for one in below]
    held = np.round([quantiles[:, LEVELS.index(0.95)] for quantiles in seeds])
    covered = f"{(need < held).mean():.3f}, {(need <= held).mean():.3f}"
    return f"| {log} | {name} | {spread(pinball, '.4f')} | {covered} | {held.mean():.2f} |"


def demand_row(log: str, batch: Batch, seeds: list[Floats], maximum: float) -> str:
    """Returns a row of the table of demand.

    Its figures are the squared errors of the median, divided by the square of the maximum of
    demand. Each cell has the error of the last value, which is present demand, and that of the
    model.
    """
    cells = []
    for horizon in HORIZONS:
        actual = batch.ahead[:, horizon - 1]
        medians = (quantiles[:, horizon - 1, LEVELS.index(0.5)] for quantiles in seeds)
        last, *errors = (float(np.nanmean((actual - point) ** 2)) / maximum**2 for point in (batch.state[:, 0], *medians))
        cells.append(f"{last:.3g}, {spread(errors, '.3g')}")
    return f"| {log} | {' | '.join(cells)} |"


def spread(figures: Sequence[float], form: str) -> str:
    """Returns the mean, and with more than one figure the standard deviation after ±."""
    mean = format(np.mean(figures), form)
    return mean if len(figures) == 1 else f"{mean} ± {format(np.std(figures, ddof=1), form)}"


if __name__ == "__main__":
    main()
