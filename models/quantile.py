"""Prophet's network: one token per bucket, and quantiles of the new nodes that the bucket needs.

It predicts increments over present demand, in units of each bucket's own scale, so it takes buckets
of any number and size. It does not depend on the names of buckets. It costs about 2 * 0.14 million
multiplications per bucket.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from data import HORIZON, STATE, WINDOW
from network import Examples, Network, over_processes

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
"""The levels of the quantiles."""


@dataclass(frozen=True, kw_only=True)
class QuantileConfig:
    """The shape of the network, and its dropout rate."""

    window: int = WINDOW
    horizon: int = HORIZON
    levels: tuple[float, ...] = LEVELS
    features: tuple[str, ...] = STATE
    width: int = 64
    heads: int = 4
    layers: int = 3
    widening: int = 2
    """Width of the feed-forward layers, as a multiple of `width`."""
    dropout: float = 0.1


class Quantile(Network):
    """Forecasts quantiles of demand and of the new nodes needed within the lead time."""

    name = "quantile"
    takes_state = True
    gives_headroom = True

    def __init__(self, config: QuantileConfig) -> None:
        super().__init__()
        self.config = config
        width, levels = config.width, len(config.levels)
        self.values = nn.Linear(config.window, width)
        self.rises = nn.Linear(config.window - 1, width)
        self.scalars = nn.Linear(3 * len(config.features) + 1 + 2 * len(PERIODS), width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.headroom = nn.Linear(width, levels)
        self.ahead = nn.Linear(width, config.horizon * levels)
        for head in (self.headroom, self.ahead):
            nn.init.constant_(head.bias, STEPS_FIRST)
        self.register_buffer("cumulate", torch.triu(torch.ones(levels, levels)))

    def forward(self, target: Tensor, time: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns quantiles of demand and of the new nodes needed.

        target is [batch, window, buckets] in nodes, NaN where missing; time is [batch, window] in
        Unix seconds; state is [batch, buckets, features]. The quantiles are [batch, buckets,
        horizon, levels] and [batch, buckets, levels], in nodes, non-decreasing along levels.
        """
        window = target.transpose(1, 2)
        demand = known(state[..., :1])
        increments = known(window[..., 1:] - window[..., :-1])
        scale = scale_of(increments)
        values = known((window - demand) / scale)
        rises = torch.relu(increments) / scale
        token = self.token(values, rises, state, scale) + self.clock(time)
        for layer in self.layers:
            token = layer(token)
        token = self.norm(token)
        return self.quantiles(token, demand, scale)

    def token(self, values: Tensor, rises: Tensor, state: Tensor, scale: Tensor) -> Tensor:
        """Returns the linear layers of all inputs but the time, [batch, buckets, width].

        The inputs include the state in nodes, the state in units of the scale, and the mask of
        missing values. One product takes less time than one for each input.
        """
        present, missing = known(state), torch.isnan(state).to(state.dtype)
        inputs = torch.asinh(torch.cat([values, rises, present, present / scale], -1))
        inputs = torch.cat([inputs, missing, torch.log(scale)], -1)
        of_state = self.scalars.weight[:, : -2 * len(PERIODS)]
        weight = torch.cat([self.values.weight, self.rises.weight, of_state], 1)
        bias = self.values.bias + self.rises.bias + self.scalars.bias
        return nn.functional.linear(inputs, weight, bias)

    def clock(self, time: Tensor) -> Tensor:
        """Returns the linear layer of the time of day and of the week, [batch, 1, width].

        Its inputs are the sine and the cosine of each.
        """
        periods = torch.tensor(PERIODS, device=time.device).repeat_interleave(2)
        turns = torch.remainder(time[:, -1:, None], periods).to(torch.float32) * (2.0 * math.pi / periods)
        # A cosine is a sine a quarter of a turn later.
        quarters = torch.tensor([0.0, math.pi / 2.0], device=time.device).repeat(len(PERIODS))
        return torch.sin(turns + quarters) @ self.scalars.weight[:, -2 * len(PERIODS) :].T

    def quantiles(self, token: Tensor, demand: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Maps tokens to quantiles in nodes: the lowest level, and non-negative steps above it."""
        config, levels = self.config, len(self.config.levels)
        steps = nn.functional.softplus(self.headroom(token))
        headroom = torch.sinh(torch.clamp(steps @ self.cumulate, max=STEPS_MAX)) * scale
        ahead = self.ahead(token).unflatten(-1, (config.horizon, levels))
        steps = ahead[..., :1] + nn.functional.softplus(ahead[..., 1:]) @ self.cumulate[1:]
        increments = torch.sinh(torch.clamp(steps, -STEPS_MAX, STEPS_MAX)) * scale[..., None]
        return torch.relu(demand[..., None] + increments), headroom

    def loss(self, examples: Examples) -> Tensor:
        """Returns the pinball loss of needs plus half that of demand, in units of the scale."""
        quantiles, headroom = self.predict(examples)
        window = examples.target.transpose(1, 2)
        scale = scale_of(known(window[..., 1:] - window[..., :-1]))
        needs = pinball(examples.need / scale[..., 0], headroom / scale, self.config.levels)
        seen = ~torch.isnan(examples.ahead)
        ahead = pinball(known(examples.ahead) / scale, quantiles / scale[..., None], self.config.levels)
        # Processes check the loss of different numbers of batches, but train on the same number.
        count = over_processes(seen.sum()) if self.training else seen.sum()
        return needs.mean() + 0.5 * (ahead * seen).sum() / count

    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Returns AdamW with a rate that first rises and then falls (one cycle)."""
        adam = torch.optim.AdamW(self.parameters(), lr=rate, weight_decay=0.01)
        return adam, torch.optim.lr_scheduler.OneCycleLR(adam, rate, steps, pct_start=0.1)


def scale_of(increments: Tensor) -> Tensor:
    """Maps increments [..., window - 1] to the scale [..., 1], in nodes.

    The scale is the root of 1 plus the mean squared increment, so it is at least one node.
    """
    return torch.sqrt(1.0 + (increments * increments).mean(-1, keepdim=True))


PERIODS = (86_400, 604_800)
"""Seconds of a day and of a week."""
STEPS_FIRST = -3.0
"""The initial bias of the steps between levels. Steps begin small: softplus(-3) is 0.05."""
STEPS_MAX = 8.0
"""The largest step before sinh. sinh(8) is 1490 scales, more than demand rises within minutes, and
it does not overflow.
"""


class Layer(nn.Module):
    """Attention among the buckets, then a feed-forward layer.

    Each follows a norm and has a residual connection. Attention is written out, because the fused
    attention exports operators that other engines do not support.
    """

    def __init__(self, config: QuantileConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.widen = nn.Linear(width, config.widening * width)
        self.narrow = nn.Linear(config.widening * width, width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, token: Tensor) -> Tensor:
        """Maps [batch, buckets, width] to the same shape."""
        token = token + self.dropout(self.merge(self.attend(self.before(token))))
        return token + self.dropout(self.narrow(torch.relu(self.widen(self.between(token)))))

    def attend(self, token: Tensor) -> Tensor:
        """Returns the attention of each bucket to all buckets."""
        mixed = self.mix(token).unflatten(-1, (3 * self.heads, -1)).transpose(1, 2)
        query, key, value = mixed.chunk(3, dim=1)
        likeness = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        return (torch.softmax(likeness, dim=-1) @ value).transpose(1, 2).flatten(-2)


def known(values: Tensor) -> Tensor:
    """Returns the values, with 0 where a value is missing."""
    return torch.where(torch.isnan(values), 0.0, values)


def pinball(actual: Tensor, quantiles: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Returns the mean pinball loss over levels, by example.

    actual is [...], and quantiles are [..., levels].
    """
    level = torch.tensor(levels, dtype=quantiles.dtype, device=quantiles.device)
    below = actual.unsqueeze(-1) - quantiles
    return torch.maximum(level * below, (level - 1.0) * below).mean(-1)
