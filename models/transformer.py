"""The paper's Transformer: it forecasts the next ticks of all buckets of one cluster.

It follows the meaning of the paper's text where the printed formulas contain slips. It has six
encoder and six decoder layers and a linear input. Positions are PE(t) = sum_i sin(2 pi t /
period_i) with the periods of a day and a week, where t is the tick of the calendar. In the paper it
is the position in the window, which says nothing of the season. The decoder begins with the
encoder's last point and has a causal mask. It is trained by mean squared error with Adam (0.9,
0.98, 1e-9) at the rate d^-0.5 min(step^-0.5, step warmup^-1.5); the printed formula lost the minus
signs.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from network import Examples, Network
from quantile import known


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The shape of the network, and the cluster that it is trained for."""

    buckets: tuple[str, ...]
    maxima: tuple[float, ...]
    """The largest demand of the training range in nodes, by bucket. Demand is divided by it."""
    window: int = 576
    horizon: int = 6
    levels: tuple[float, ...] = (0.5,)
    tick_seconds: int = 300
    periods: tuple[int, ...] = (288, 2_016)
    width: int = 64
    heads: int = 4
    layers: int = 6
    widening: int = 4
    dropout: float = 0.2
    warmup: int = 5_000
    pace: float = 1.0
    """The factor of the learning rate: 1 in the paper."""


class Transformer(Network):
    """The Transformer of the paper."""

    name = "transformer"
    joint = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("maxima", torch.tensor(config.maxima))
        buckets = len(config.buckets)
        self.into, self.out = nn.Linear(buckets, config.width), nn.Linear(config.width, buckets)
        self.encoder = nn.ModuleList(Block(config, looks_back=False) for _ in range(config.layers))
        self.decoder = nn.ModuleList(Block(config, looks_back=True) for _ in range(config.layers))

    def forward(self, target: Tensor, time: Tensor) -> Tensor:
        """Returns demand of the next ticks, [batch, buckets, horizon, 1], in nodes.

        target is [batch, window, buckets] in nodes, NaN where missing; time is [batch, window] in
        Unix seconds.
        """
        scaled = known(target / self.maxima)
        memory, points = self.remember(self.encode(scaled, time)), scaled[:, -1:]
        for _ in range(self.config.horizon):
            points = torch.cat([points, self.decode(points, memory, time)[:, -1:]], dim=1)
        return torch.relu(points[:, 1:] * self.maxima).transpose(1, 2)[..., None]

    def inputs(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """Returns the inputs of the encoder, [batch, window, buckets], and their times."""
        return known(examples.target / self.maxima), examples.time

    def tokens(self, scaled: Tensor, time: Tensor) -> Tensor:
        """Maps the inputs [batch, window, buckets] to the first layer's, [batch, window, width]."""
        ticks = torch.div(time, self.config.tick_seconds, rounding_mode="floor")
        return self.into(scaled) + self.positions(ticks)

    def encode(self, scaled: Tensor, time: Tensor) -> Tensor:
        """Maps [batch, window, buckets] to [batch, window, width]."""
        token = self.tokens(scaled, time)
        for block in self.encoder:
            token = block(token, None)
        return token

    def remember(self, memory: Tensor) -> list["Memory"]:
        """Returns what each layer of the decoder reads of the encoder's output."""
        return [block.back.remember(memory) for block in self.decoder]

    def decode(self, points: Tensor, memory: list["Memory"], time: Tensor) -> Tensor:
        """Maps points [batch, n, buckets] to the point after each. The first is the last tick of
        the window.
        """
        last = torch.div(time[:, -1:], self.config.tick_seconds, rounding_mode="floor")
        token = self.into(points) + self.positions(last + torch.arange(points.shape[1], device=last.device))
        for block, remembered in zip(self.decoder, memory, strict=True):
            token = block(token, remembered)
        return self.out(token)

    def positions(self, ticks: Tensor) -> Tensor:
        """Maps ticks [batch, n] to [batch, n, 1]: the same number on every component, as in the
        paper.
        """
        phases = [torch.remainder(ticks, period).to(torch.float32) * (2 * math.pi / period) for period in self.config.periods]
        return torch.stack([torch.sin(phase) for phase in phases]).sum(0)[..., None]

    def loss(self, examples: Examples) -> Tensor:
        """Returns the mean squared error; the decoder's input is the actual preceding points."""
        scaled, ahead = self.scaled(examples)
        points = torch.cat([scaled[:, -1:], ahead[:, :-1]], dim=1)
        return nn.functional.mse_loss(self.decode(points, self.remember(self.encode(scaled, examples.time)), examples.time), ahead)

    def scaled(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """Returns the window [batch, window, buckets] and the next ticks [batch, horizon, buckets]."""
        ahead = (examples.ahead / self.maxima[:, None]).transpose(1, 2)[:, : self.config.horizon]
        return known(examples.target / self.maxima), ahead

    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Returns the paper's optimizer and schedule; `rate` and `steps` are not used."""
        adam = torch.optim.Adam(self.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
        width, warmup, pace = self.config.width, self.config.warmup, self.config.pace

        def rate_at(step: int) -> float:
            return float(pace * width**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5))

        return adam, torch.optim.lr_scheduler.LambdaLR(adam, rate_at)


class Block(nn.Module):
    """Self-attention, in the decoder also attention to the encoder, and a feed-forward layer.

    A norm follows each.
    """

    def __init__(self, config: TransformerConfig, looks_back: bool) -> None:
        super().__init__()
        width = config.width
        self.causal = looks_back
        self.own = Attention(width, config.heads)
        self.back = Attention(width, config.heads) if looks_back else None
        self.feed = nn.Sequential(nn.Linear(width, config.widening * width), nn.ReLU(), nn.Linear(config.widening * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        if not looks_back:
            # The second norm is not used. Several processes would wait for its gradient.
            self.norms[1].requires_grad_(False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, token: Tensor, memory: "Memory | None") -> Tensor:
        """Maps [batch, n, width] to the same shape."""
        token = self.norms[0](token + self.dropout(self.own(token, self.own.remember(token), self.causal)))
        if self.back is not None and memory is not None:
            token = self.norms[1](token + self.dropout(self.back(token, memory, False)))
        return self.norms[2](token + self.dropout(self.feed(token)))


Memory = tuple[Tensor, Tensor]
"""The keys and the values of a sequence, each [batch, heads, m, width / heads]."""


class Attention(nn.Module):
    """Multi-head attention.

    PyTorch computes the fused attention, which is several times as fast over two days. In an
    exported file, attention is written out, because other engines do not support the operators of
    the fused one.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.merge = nn.Linear(width, width)

    def forward(self, queries: Tensor, memory: Memory, causal: bool) -> Tensor:
        """Maps queries [batch, n, width] to the same shape.

        With `causal`, an element does not attend to the elements after it.
        """
        key, value = memory
        if torch.compiler.is_exporting():
            mixed = self.weights(queries, key, causal) @ value
        else:
            query = self.by_head(self.query(queries))
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.merge(mixed.transpose(1, 2).flatten(-2))

    def remember(self, memory: Tensor) -> Memory:
        """Returns the keys and the values of a sequence [batch, m, width]."""
        return self.by_head(self.key(memory)), self.by_head(self.value(memory))

    def weights(self, queries: Tensor, key: Tensor, causal: bool) -> Tensor:
        """Returns how much each query attends to each element, [batch, heads, n, m]."""
        query = self.by_head(self.query(queries))
        likeness = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        if causal:
            n = queries.shape[1]
            likeness = likeness + torch.triu(torch.full((n, n), BLOCKED, device=queries.device), diagonal=1)
        return torch.softmax(likeness, dim=-1)

    def by_head(self, values: Tensor) -> Tensor:
        """Maps [batch, n, width] to [batch, heads, n, width / heads]."""
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)


BLOCKED = -1e9
"""The mask value. Minus infinity would make a fully masked row NaN."""
