"""Creates networks by name, and loads networks from a folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data import Series
from lstm import Lstm, LstmConfig
from network import Examples, Network
from quantile import Quantile, QuantileConfig
from transformer import Transformer, TransformerConfig

__all__ = ["NAMES", "Examples", "Network", "load", "new"]

KINDS: dict[str, tuple[Any, Any]] = {
    "quantile": (Quantile, QuantileConfig),
    "transformer": (Transformer, TransformerConfig),
    "lstm": (Lstm, LstmConfig),
}
NAMES = tuple(KINDS)


def new(name: str, series: list[Series]) -> Network:
    """Returns an untrained network.

    The networks of the paper are built for the buckets of the series and scaled by their maxima.
    """
    kind, config = KINDS[name]
    if not kind.joint:
        network: Network = kind(config())
        return network
    buckets = tuple(one.bucket for one in series)
    maxima = tuple(float(np.nanmax(one.columns["demand_max"])) for one in series)
    network = kind(config(buckets=buckets, maxima=maxima))
    return network


def load(folder: Path) -> Network:
    """Returns the network of a folder that train.py wrote."""
    saved = json.loads((folder / "config.json").read_text())
    kind, config = KINDS[saved["network"]]
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in saved["config"].items()}
    network: Network = kind(config(**fields))
    network.load_state_dict(torch.load(folder / "weights.pt", weights_only=True, map_location="cpu"))
    return network
