"""A variant of the paper's Transformer that corrects a linear forecast of the difference to the last
value.

The paper's network forecasts levels, so it has to repeat the last one, which it does not learn
exactly. Here the last value and a linear forecast of the change are added to its output. The linear
forecast is a ridge regression on the distances of the last value from moving averages, on the last
changes, and on the time of day and of the week. It is fitted before the training, and the layers
begin with an output of 0, so the training begins with the loss of the regression.

The decoder reads the forecast of the regression, both in the training and in a forecast. The paper's
decoder reads the points that it has forecast itself, but in the training the actual ones, from which
it learns to repeat the last point.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from network import Examples
from quantile import known
from transformer import Transformer, TransformerConfig

AVERAGES = (3, 6, 12, 36, 72, 288, 576)
"""The lengths of the moving averages in ticks, up to two days."""
LAGS = (1, 2, 3, 6, 12)
"""The ages in ticks of the values from which the last one has changed."""
TURNS = (1, 2)
"""The turns of the sines and cosines in each period of the time."""
STRENGTHS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""The ridges that are tried, by example, for inputs with a variance of 1."""
WEEK = 604_800
"""Seconds of a week."""


@dataclass(frozen=True, kw_only=True)
class DifferencesConfig(TransformerConfig):
    """The shape of the network, and the cluster that it is trained for."""

    pace: float = 0.1
    """The layers correct the regression by a hundredth of the largest count, so the steps of the
    training are smaller than the paper's.
    """


class DifferencesTransformer(Transformer):
    """The Transformer of the paper as a correction of a linear forecast."""

    name = "transformer-differences"
    averaging = 0.999

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        start_at_zero(self.out)
        self.register_buffer("seen", distances(config.window))
        buckets = len(config.buckets)
        inputs = buckets * (self.seen.shape[1] + 1) + 2 * len(TURNS) * len(config.periods)
        self.linear = nn.Linear(inputs, config.horizon * buckets)
        start_at_zero(self.linear)
        self.register_buffer("last", torch.ones(config.horizon))
        # The regression is not trained further, because the steps of a training are noisier.
        self.linear.requires_grad_(False)

    def forward(self, target: Tensor, time: Tensor) -> Tensor:
        """Returns demand of the next ticks, [batch, buckets, horizon, 1], in nodes."""
        points = self.corrected(known(target / self.maxima), time)
        return torch.relu(points * self.maxima).transpose(1, 2)[..., None]

    def corrected(self, scaled: Tensor, time: Tensor) -> Tensor:
        """Returns the next ticks as shares of the maxima, [batch, horizon, buckets]."""
        linear = self.regression(scaled, time)
        points = torch.cat([scaled[:, -1:], linear[:, :-1]], dim=1)
        return linear + self.decode(points, self.remember(self.encode(scaled, time)), time)

    def regression(self, scaled: Tensor, time: Tensor) -> Tensor:
        """Returns the linear forecast of the next ticks, [batch, horizon, buckets]."""
        change = self.linear(self.features(scaled, time)).unflatten(-1, (self.config.horizon, -1))
        return scaled[:, -1:] + change

    def features(self, scaled: Tensor, time: Tensor) -> Tensor:
        """Returns the inputs of the regression, [batch, inputs]."""
        rows = scaled.transpose(1, 2)
        last = torch.remainder(time[:, -1:], self.config.tick_seconds * max(self.config.periods)).to(torch.float32)
        phases = [
            last * (2 * math.pi * turns / (self.config.tick_seconds * period)) for period in self.config.periods for turns in TURNS
        ]
        clock = [turn(phase) for phase in phases for turn in (torch.sin, torch.cos)]
        return torch.cat([(rows @ self.seen).flatten(1), rows[..., -1], *clock], dim=-1)

    def loss(self, examples: Examples) -> Tensor:
        """Returns the mean squared error as a share of that of the last value: a mean over ticks.

        Without the shares, the sixth tick would weigh seven times as much as the first one.
        """
        scaled, ahead = self.scaled(examples)
        missed = self.corrected(scaled, examples.time) - ahead
        return ((missed**2).mean((0, 2)) / self.last).mean()

    def prepare(self, training: Callable[[], Sequence[Examples]]) -> None:
        """Fits the regression to all examples, with the ridge that has the smallest squared error in
        weeks that it was not fitted to. Sets the squared errors of the last value.

        One week cannot choose the ridge, because weeks differ: in some, changes persist for longer.
        """
        batches = training()
        inputs, changes = self.cases(batches)
        weeks = torch.cat([examples.time[:, -1] for examples in batches]) // WEEK
        errors = dict.fromkeys(STRENGTHS, 0.0)
        for week in weeks.unique():
            other = weeks != week
            for strength in STRENGTHS if other.any() else ():
                weight, bias = ridge(inputs[other], changes[other], strength)
                missed = inputs[~other] @ weight.T + bias - changes[~other]
                errors[strength] += float((missed**2).sum())
        weight, bias = ridge(inputs, changes, min(STRENGTHS, key=lambda strength: errors[strength]))
        self.linear.weight.data.copy_(weight)
        self.linear.bias.data.copy_(bias)
        self.last.copy_((changes.unflatten(1, (self.config.horizon, -1)) ** 2).mean((0, 2)))

    def cases(self, batches: Sequence[Examples]) -> tuple[Tensor, Tensor]:
        """Returns the inputs of the regression and the changes, one row for each example."""
        inputs, changes = [], []
        for examples in batches:
            scaled, ahead = self.scaled(examples)
            inputs.append(self.features(scaled, examples.time).double())
            changes.append((ahead - scaled[:, -1:]).flatten(1).double())
        return torch.cat(inputs), torch.cat(changes)


def ridge(inputs: Tensor, changes: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Returns the weight [outputs, inputs] and the bias [outputs] of a ridge regression."""
    mean, deviation = inputs.mean(0), inputs.std(0) + 1e-9
    scaled, middle = (inputs - mean) / deviation, changes.mean(0)
    moments = scaled.T @ scaled + strength * len(scaled) * torch.eye(scaled.shape[1], dtype=scaled.dtype, device=scaled.device)
    weight = torch.linalg.solve(moments, scaled.T @ (changes - middle)).T / deviation
    return weight, middle - weight @ mean


def distances(window: int) -> Tensor:
    """Returns the matrix [window, distances] that maps a window to the distances of its last value
    from moving averages and from earlier values. Longer averages than the window are left out.
    """
    columns = []
    for length in AVERAGES:
        if length <= window:
            column = torch.zeros(window)
            column[-length:] = -1.0 / length
            columns.append(column)
    for lag in LAGS:
        if lag < window:
            column = torch.zeros(window)
            column[-1 - lag] = -1.0
            columns.append(column)
    matrix = torch.stack(columns, dim=1) if columns else torch.zeros(window, 0)
    matrix[-1] += 1.0
    return matrix


def start_at_zero(layer: nn.Linear) -> None:
    """Makes a layer return 0."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
