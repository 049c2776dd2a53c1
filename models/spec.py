"""The spec of a model file: the JSON under `prophet.spec` in its metadata.

The controller checks it when it loads the file. `docs/models.md` describes the fields.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from data import STATE, STRIDE, TICK_SECONDS
from network import Examples, Network

KEY = "prophet.spec"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Golden:
    """An input of batch 1 with the expected output.

    All arrays are flat, in row-major order; a missing value is null.
    """

    buckets: int
    target: list[float | None]
    time: list[int]
    state: list[float | None] | None
    quantiles: list[float]
    headroom: list[float] | None


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The fields of the spec."""

    version: int
    window: int
    horizon: int
    tick_seconds: int
    levels: list[float]
    buckets: list[str] | None
    """The buckets that the model was trained for, in order; none if it takes any buckets."""
    covariates: list[str]
    """The covariates of the input `future`; empty, because no network here has this input."""
    state: list[str]
    """The features of the input `state`."""
    lead_seconds: list[int] | None
    """The shortest and the longest lead time in seconds that `headroom` was trained for."""
    training: dict[str, Any]
    revision: str
    """The git revision of the code that trained the model."""
    golden: Golden


def spec_of(network: Network, training: dict[str, Any], revision: str) -> Spec:
    """Returns the spec of a trained network."""
    config = network.config
    leads = [TICK_SECONDS * lead for lead in training.get("leads", [])]
    buckets = list(config.buckets) if network.joint else None
    return Spec(
        version=VERSION,
        window=config.window,
        horizon=config.horizon,
        tick_seconds=TICK_SECONDS * STRIDE,
        levels=list(config.levels),
        buckets=buckets,
        covariates=[],
        state=list(config.features) if network.takes_state else [],
        lead_seconds=[min(leads), max(leads)] if network.gives_headroom else None,
        training=training,
        revision=revision,
        golden=golden_of(network, len(buckets) if buckets else 2),
    )


def golden_of(network: Network, buckets: int) -> Golden:
    """Returns the output of the network for a day that rises and falls, with an hour missing."""
    examples = made_up(1, buckets, network.config.window)
    network.eval()
    with torch.no_grad():
        quantiles, headroom = network.predict(examples)
    return Golden(
        buckets=buckets,
        target=flat(examples.target),
        time=examples.time.flatten().tolist(),
        state=flat(examples.state) if network.takes_state else None,
        quantiles=quantiles.flatten().tolist(),
        headroom=None if headroom is None else headroom.flatten().tolist(),
    )


def made_up(batch: int, buckets: int, window: int, seed: int = 7) -> Examples:
    """Returns synthetic examples: whole counts, with an hour missing."""
    draw = np.random.default_rng(seed)
    ticks = np.arange(window, dtype=np.float32)[None, :, None]
    size = 10.0 * (1 + np.arange(buckets))[None, None, :]
    target = np.round(size * (1 + 0.5 * np.sin(ticks / 40)) + draw.poisson(2.0, (batch, window, buckets))).astype(np.float32)
    target[:, 12:24] = np.nan
    time = 1_700_000_100 + 300 * np.arange(window)[None, :] + 86_400 * np.arange(batch)[:, None]
    state = draw.gamma(1.0, 1.0, (batch, buckets, len(STATE))).round(3).astype(np.float32)
    state[..., STATE.index("demand")] = target[:, -1]
    state[..., STATE.index("lead_seconds")] = 360.0
    state[..., STATE.index("need_week_ago")] = np.nan
    unknown = torch.full((batch, buckets, 1), torch.nan)
    return Examples(
        target=torch.tensor(target),
        time=torch.tensor(time),
        state=torch.tensor(state),
        need=unknown[..., 0],
        ahead=unknown,
    )


def flat(values: torch.Tensor) -> list[float | None]:
    """Returns the values as a flat list, with None for missing values because JSON has no NaN."""
    return [None if np.isnan(value) else value for value in values.flatten().tolist()]


def as_json(spec: Spec) -> dict[str, Any]:
    """Returns the spec as it is written, without the fields that are absent."""

    def there(fields: dict[str, Any]) -> dict[str, Any]:
        return {name: there(value) if isinstance(value, dict) else value for name, value in fields.items() if value is not None}

    return there(asdict(spec))
