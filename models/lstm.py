"""The paper's LSTM: two layers of 51 cells, trained with the Huber loss.

It forecasts the next tick of all buckets of one cluster.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from network import Examples, Network
from quantile import known


@dataclass(frozen=True, kw_only=True)
class LstmConfig:
    """The shape of the network, and the cluster that it is trained for."""

    buckets: tuple[str, ...]
    maxima: tuple[float, ...]
    """The largest demand of the training range in nodes, by bucket. Demand is divided by it."""
    window: int = 288
    horizon: int = 1
    levels: tuple[float, ...] = (0.5,)
    cells: int = 51
    layers: int = 2
    rate: float = 0.02


class Lstm(Network):
    """The LSTM of the paper."""

    name = "lstm"
    joint = True

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        buckets = len(config.buckets)
        self.register_buffer("maxima", torch.tensor(config.maxima))
        self.lstm = nn.LSTM(buckets, config.cells, config.layers, batch_first=True)
        self.out = nn.Linear(config.cells, buckets)

    def forward(self, target: Tensor, time: Tensor) -> Tensor:
        """Returns demand of the next tick, [batch, buckets, 1, 1], in nodes.

        target is [batch, window, buckets] in nodes, NaN where missing; time is not used.
        """
        forecast = self.next(known(target / self.maxima)) * self.maxima
        return torch.relu(forecast)[:, :, None, None] + 0.0 * time[:, -1].to(target.dtype)[:, None, None, None]

    def next(self, scaled: Tensor) -> Tensor:
        """Maps [batch, window, buckets] to the tick after it, [batch, buckets], as fractions of the
        maxima.
        """
        cells, _ = self.lstm(scaled)
        return self.out(cells[:, -1])

    def loss(self, examples: Examples) -> Tensor:
        """Returns the Huber loss of the next tick."""
        forecast = self.next(known(examples.target / self.maxima))
        return nn.functional.huber_loss(forecast, examples.ahead[..., 0] / self.maxima)

    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Returns Adam with the paper's rate; `rate` is not used."""
        adam = torch.optim.Adam(self.parameters(), lr=self.config.rate)
        return adam, torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
