"""Creates networks by name, and loads networks from a folder or from a model file."""

import base64
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from data import Series
from differences import DifferencesConfig, DifferencesTransformer
from lstm import Lstm, LstmConfig
from network import Examples, Network
from quantile import Quantile, QuantileConfig
from transformer import Transformer, TransformerConfig

__all__ = ["KEY", "NAMES", "Examples", "Network", "as_text", "load", "new"]

KEY = "prophet.weights"
"""The key of the weights in the metadata of a model file. The controller does not read it."""

KINDS: dict[str, tuple[Any, Any]] = {
    "quantile": (Quantile, QuantileConfig),
    "transformer": (Transformer, TransformerConfig),
    "lstm": (Lstm, LstmConfig),
    "transformer-differences": (DifferencesTransformer, DifferencesConfig),
}
NAMES = tuple(KINDS)


def new(name: str, series: list[Series], **shape: int) -> Network:
    """Returns an untrained network. `shape` replaces fields of its configuration.

    The networks of the paper are built for the buckets of the series and scaled by their maxima.
    """
    kind, config = KINDS[name]
    if not kind.joint:
        network: Network = kind(config(**shape))
        return network
    buckets = tuple(one.bucket for one in series)
    maxima = tuple(float(np.nanmax(one.columns["demand_max"])) for one in series)
    network = kind(config(buckets=buckets, maxima=maxima, **shape))
    return network


def load(path: Path) -> Network:
    """Returns the network of a folder that train.py wrote, or of a file of `export.py --weights`."""
    if path.is_dir():
        saved = json.loads((path / "config.json").read_text())
        weights = torch.load(path / "weights.pt", weights_only=True, map_location="cpu")
        return _network(saved["network"], saved["config"], weights)
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    if KEY not in metadata:
        raise SystemExit(f"{path}: the file has no weights to go on from: give the folder that train.py wrote")
    saved = json.loads(metadata[KEY])
    weights = torch.load(io.BytesIO(base64.b64decode(saved["weights"])), weights_only=True, map_location="cpu")
    return _network(saved["network"], saved["config"], weights)


def as_text(network: Network) -> str:
    """Returns the configuration and the weights of a network as JSON."""
    content = io.BytesIO()
    torch.save({name: value.cpu() for name, value in network.state_dict().items()}, content)
    weights = base64.b64encode(content.getvalue()).decode()
    return json.dumps({"network": network.name, "config": asdict(network.config), "weights": weights})


def _network(name: str, config: dict[str, Any], weights: dict[str, Any]) -> Network:
    kind, config_kind = KINDS[name]
    fields = {field: tuple(value) if isinstance(value, list) else value for field, value in config.items()}
    network: Network = kind(config_kind(**fields))
    network.load_state_dict(weights)
    return network
