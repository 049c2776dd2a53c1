"""The paper's LSTM: two layers of 51 cells, Huber loss, the next tick of all buckets of one cluster."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from network import Examples, Network
from quantile import known


@dataclass(frozen=True, kw_only=True)
class LstmConfig:
    """The shape of the network, and the cluster that it is made for."""

    buckets: tuple[str, ...]
    maxima: tuple[float, ...]
    """Nodes: the largest demand of the training range, by bucket. Demand is scaled by it."""
    window: int = 288
    horizon: int = 1
    levels: tuple[float, ...] = (0.5,)
    cells: int = 51
    layers: int = 2
    rate: float = 0.02


class Lstm(Network):
    """See the module."""

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
        """target [batch, window, buckets] in nodes, NaN where missing; time is not looked at. [batch, buckets, 1, 1], in nodes."""
        forecast = self.next(known(target / self.maxima)) * self.maxima
        return torch.relu(forecast)[:, :, None, None] + 0.0 * time[:, -1].to(target.dtype)[:, None, None, None]

    def next(self, scaled: Tensor) -> Tensor:
        """The tick after a window: [batch, window, buckets] to [batch, buckets], as shares of the maxima."""
        cells, _ = self.lstm(scaled)
        return self.out(cells[:, -1])

    def loss(self, examples: Examples) -> Tensor:
        """The Huber loss of the next tick."""
        forecast = self.next(known(examples.target / self.maxima))
        return nn.functional.huber_loss(forecast, examples.ahead[..., 0] / self.maxima)

    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Adam, at the paper's rate whatever is asked for."""
        adam = torch.optim.Adam(self.parameters(), lr=self.config.rate)
        return adam, torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
