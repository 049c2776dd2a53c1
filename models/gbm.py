"""LightGBM as a baseline: gradient-boosted trees for each level, on the state and the last hour.

It is the sanity check for the models.
"""

from dataclasses import dataclass

import lightgbm
import numpy as np

from data import Batch, Floats
from quantile import LEVELS


@dataclass(frozen=True, kw_only=True)
class GbmConfig:
    """How the trees are trained."""

    levels: tuple[float, ...] = LEVELS
    trees: int = 80
    leaves: int = 31
    rate: float = 0.08
    leaf_examples_min: int = 100
    seed: int = 1


class Gbm:
    """Quantiles of the new nodes needed."""

    def __init__(self, config: GbmConfig) -> None:
        self.config = config
        self.trees: list[lightgbm.Booster] = []

    def fit(self, batch: Batch) -> None:
        """Trains the trees on examples."""
        config = self.config
        rows = lightgbm.Dataset(_columns(batch), label=batch.need, free_raw_data=False)
        settings = {
            "objective": "quantile",
            "num_leaves": config.leaves,
            "learning_rate": config.rate,
            "min_data_in_leaf": config.leaf_examples_min,
            "seed": config.seed,
            "deterministic": True,
            "num_threads": 1,
            "verbosity": -1,
        }
        self.trees = [lightgbm.train(settings | {"alpha": level}, rows, config.trees) for level in config.levels]

    def predict(self, batch: Batch) -> Floats:
        """Returns [examples, levels], in nodes, non-decreasing along levels."""
        columns = _columns(batch)
        quantiles = np.stack([np.asarray(trees.predict(columns)) for trees in self.trees], axis=1)
        return np.maximum.accumulate(np.maximum(quantiles, 0.0), axis=1).astype(np.float32)


def _columns(batch: Batch) -> Floats:
    recent = batch.target[:, -12:] - batch.state[:, :1]
    return np.concatenate([batch.state, recent], axis=1)
