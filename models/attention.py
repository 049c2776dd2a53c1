"""Draws what the first layer of a Transformer attends to, as figure 9 of the paper:
`python models/attention.py target/models/paper/transformer --ticks philly.csv --out DIR`.

The map is the mean over windows of the test range and over the heads of the first encoder layer. DIR
gets attention.svg, and attention.csv with a row for each hour of the window and the attention that
each hour of it gets.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import networks
import plots
from data import STRIDE, TICK_SECONDS, Corpus, Series, read_ticks
from networks import Examples
from splits import known_splits, parts
from transformer import Transformer

WINDOWS = 64
"""The number of windows, evenly over the test range."""
LEAD = 6
"""A lead time in ticks. It only selects the moments that have a window."""
HOUR = 3_600 // (TICK_SECONDS * STRIDE)
"""Ticks of a model in an hour."""


def attention(network: Transformer, series: list[Series]) -> NDArray[np.float64]:
    """Returns the mean attention of each tick of the window to each tick, [window, window].

    A joint network sees all buckets at a time, another one sees one bucket after the other.
    """
    corpus = Corpus(parts(series, "test", known_splits()), LEAD, network.config.window)
    some = [positions[:: max(1, len(positions) // WINDOWS)] for positions in corpus.positions]
    at, buckets = (corpus.beside(some[0]).ravel(), len(series)) if network.joint else (np.concatenate(some), 1)
    network.eval()
    with torch.no_grad():
        token = network.tokens(*network.inputs(Examples.of(corpus.batch(at), buckets)))
        first = network.encoder[0].own
        weights = first.weights(token, first.remember(token)[0], causal=False)
    return weights.mean((0, 1)).to(torch.float64).numpy()


def by_hour(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums the attention that the ticks of each hour get, and averages over those of each hour."""
    hours = len(weights) // HOUR
    kept = weights[-hours * HOUR :, -hours * HOUR :].reshape(hours, HOUR, hours, HOUR)
    return kept.sum(3).mean(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", type=Path, help="the folder that train.py wrote, of a Transformer")
    parser.add_argument("--ticks", type=Path, required=True, metavar="FILE", help="ticks of `prophet trace ticks --mode share`")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder for attention.svg and attention.csv")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    network = networks.load(arguments.network)
    if not isinstance(network, Transformer):
        raise SystemExit(f"{arguments.network}: expected a Transformer, got {network.name}")
    weights = attention(network, read_ticks(arguments.ticks, arguments.ticks.name.split(".")[0]))
    arguments.out.mkdir(parents=True, exist_ok=True)
    plots.attention(weights, arguments.out / "attention.svg")
    np.savetxt(arguments.out / "attention.csv", by_hour(weights), fmt="%.6f", delimiter=",")
    print(f"wrote {arguments.out / 'attention.svg'}")


if __name__ == "__main__":
    main()
