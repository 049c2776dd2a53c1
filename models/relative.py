"""A variant of the paper's Transformer that forecasts the difference to the last value, for any
buckets.

The paper's network takes the counts of all buckets of one cluster as fractions of their maxima, so
a file suits only the cluster that it was trained for. Here the weights are shared by all buckets,
and each bucket is seen from its last value, in units of its own changes. So a file serves any
cluster, and an untrained network forecasts the last value.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from data import HORIZON, WINDOW
from network import Examples
from quantile import known
from transformer import Transformer

CHANNELS = 3
"""Inputs by tick: the change to it, the distance from the last value, and the value itself, all in
units of changes. The next change depends on the last ones most, and without the first channel, the
network had not learned that after 400 steps.
"""
CLIP = 10.0
"""The largest difference of the training in units of changes, either way. Rarer ones would dominate
the squared error of a batch.
"""


@dataclass(frozen=True, kw_only=True)
class RelativeTransformerConfig:
    """The shape of the network, and its training."""

    window: int = WINDOW
    horizon: int = HORIZON
    levels: tuple[float, ...] = (0.5,)
    tick_seconds: int = 300
    periods: tuple[int, ...] = (288, 2_016)
    width: int = 32
    heads: int = 2
    layers: int = 6
    widening: int = 4
    dropout: float = 0.05
    warmup: int = 200
    pace: float = 0.12
    """The factor of the learning rate. With the paper's rate, the training of a network of this
    width diverges after so short a warm-up.
    """


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The windows of a batch, one row for each bucket, as seen from their last values."""

    relative: Tensor
    """[rows, window]: the distance from the last value, in changes."""
    last: Tensor
    """[rows, 1]: the last value, in changes."""
    scale: Tensor
    """[rows, 1]: a change, in nodes: the root mean square of the changes from tick to tick."""

    @staticmethod
    def of(target: Tensor) -> "Seen":
        """Returns the rows of target, [batch, window, buckets] in nodes, NaN where missing."""
        rows = target.transpose(1, 2).flatten(0, 1)
        changes = known(rows[:, 1:] - rows[:, :-1])
        # At least one change of one node in the window, so that a constant demand has a scale.
        scale = torch.sqrt(((changes * changes).sum(-1, keepdim=True) + 1.0) / changes.shape[-1])
        last = known(rows[:, -1:])
        return Seen(relative=known((rows - last) / scale), last=last / scale, scale=scale)

    def inputs(self, relative: Tensor, before: Tensor) -> Tensor:
        """Maps distances from the last value, [rows, n], to the inputs [rows, n, CHANNELS].

        `before` is the distance of the tick before the first, [rows, 1].
        """
        changes = relative - torch.cat([before, relative[:, :-1]], dim=1)
        return torch.stack([torch.asinh(changes), torch.asinh(relative), torch.asinh(relative + self.last)], dim=-1)

    def window(self) -> Tensor:
        """Returns the inputs of the window. The change to its first tick is not known."""
        return self.inputs(self.relative, self.relative[:, :1])

    def from_last(self, relative: Tensor) -> Tensor:
        """Returns the inputs of the last tick and those after it, whose distances are given."""
        return self.inputs(relative, self.relative[:, -2:-1])

    def nodes(self, relative: Tensor, buckets: int) -> Tensor:
        """Maps distances [rows, horizon] to demand in nodes, [batch, buckets, horizon, 1]."""
        return torch.relu((relative + self.last) * self.scale).unflatten(0, (-1, buckets))[..., None]

    def ahead(self, examples: Examples, horizon: int) -> tuple[Tensor, Tensor]:
        """Returns the points before each tick ahead and the changes to that tick, [rows, horizon]."""
        ahead = known((examples.ahead.flatten(0, 1)[:, :horizon] / self.scale) - self.last)
        before = torch.cat([torch.zeros_like(ahead[:, :1]), ahead[:, :-1]], dim=1)
        return before, torch.clamp(ahead - before, -CLIP, CLIP)


class RelativeTransformer(Transformer):
    """The Transformer of the paper over the differences of any bucket."""

    name = "relative-transformer"
    joint = False

    def __init__(self, config: RelativeTransformerConfig) -> None:
        super().__init__(config, CHANNELS, 1)
        start_at_zero(self.out)

    def forward(self, target: Tensor, time: Tensor) -> Tensor:
        """Returns demand of the next ticks, [batch, buckets, horizon, 1], in nodes."""
        buckets = target.shape[2]
        seen, time = Seen.of(target), by_row(time, buckets)
        memory = self.remember(self.encode(seen.window(), time))
        points = torch.zeros_like(seen.last)
        for _ in range(self.config.horizon):
            change = self.decode(seen.from_last(points), memory, time)[:, -1]
            points = torch.cat([points, points[:, -1:] + change], dim=1)
        return seen.nodes(points[:, 1:], buckets)

    def inputs(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """Returns the inputs of the encoder, [rows, window, CHANNELS], and their times."""
        return Seen.of(examples.target).window(), by_row(examples.time, examples.target.shape[2])

    def loss(self, examples: Examples) -> Tensor:
        """Returns the mean squared error of the changes; the decoder's input is the actual points."""
        seen, time = Seen.of(examples.target), by_row(examples.time, examples.target.shape[2])
        before, changes = seen.ahead(examples, self.config.horizon)
        memory = self.remember(self.encode(seen.window(), time))
        return nn.functional.mse_loss(self.decode(seen.from_last(before), memory, time)[..., 0], changes)


def by_row(time: Tensor, buckets: int) -> Tensor:
    """Maps the times of a batch [batch, window] to those of its rows, [batch * buckets, window]."""
    return time[:, None].expand(-1, buckets, -1).flatten(0, 1)


def start_at_zero(layer: nn.Linear) -> None:
    """Makes a layer return 0, so that an untrained network forecasts the last value."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
