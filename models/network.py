"""The base class of all networks: examples as tensors, a loss, an optimizer, and saving.

A folder holds the weights and the configuration of a network.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn

from data import Batch


@dataclass(frozen=True, kw_only=True)
class Examples:
    """A batch for a network. Counts are in nodes; NaN is a missing value."""

    target: Tensor
    """[batch, window, buckets]: the maximum of demand in each tick of the model."""
    time: Tensor
    """[batch, window]: Unix seconds, those of the first bucket."""
    state: Tensor
    """[batch, buckets, features]."""
    need: Tensor
    """[batch, buckets]: the new nodes that were needed within the lead time."""
    ahead: Tensor
    """[batch, buckets, horizon]: the maximum of demand in each of the next ticks of the model."""

    @staticmethod
    def of(batch: Batch, buckets: int, device: str = "cpu") -> "Examples":
        """Combines every `buckets` examples of a batch into one row."""

        def rows(values: NDArray[Any]) -> Tensor:
            return torch.as_tensor(values, device=device).unflatten(0, (-1, buckets))

        return Examples(
            target=rows(batch.target).transpose(1, 2),
            time=rows(batch.time)[:, 0],
            state=rows(batch.state),
            need=rows(batch.need),
            ahead=rows(batch.ahead),
        )


def over_processes(count: Tensor) -> Tensor:
    """Returns the mean of a count over the processes that train together.

    A sum that each process divides by this mean has the mean over all examples as its mean. If each
    divided by its own count, a process with fewer examples would weigh as much as the others.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return count
    total = count.detach().to(torch.float32)
    distributed.all_reduce(total)
    return total / distributed.get_world_size()


class Network(nn.Module, ABC):
    """A neural network whose export keeps the contract of `docs/models.md`."""

    name: ClassVar[str]
    joint: ClassVar[bool] = False
    """Whether its buckets are those of one cluster at the same time. Otherwise it takes any buckets
    together.
    """
    takes_state: ClassVar[bool] = False
    """Whether it has the input `state`."""
    gives_headroom: ClassVar[bool] = False
    """Whether it has the output `headroom`."""
    averaging: ClassVar[float] = 0.0
    """The share of the old value in each step of the moving average of the weights. The training
    checks this average, and keeps it as it is at the end, because it needs no choice of a step.
    With 0, there is no average, and the weights of the best check are kept.
    """

    config: Any
    """A frozen dataclass with `window`, `horizon` and `levels`."""

    @abstractmethod
    def loss(self, examples: Examples) -> Tensor:
        """Returns the loss that training minimises, a scalar."""

    @abstractmethod
    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Returns the optimizer and its schedule for `steps` steps at the learning rate `rate`."""

    def prepare(self, training: Callable[[], Sequence[Examples]]) -> None:
        """Sets what is computed from examples before the training: by default nothing."""

    def describe(self) -> str:
        """Returns the name and the number of weights."""
        return f"{self.name}: {sum(weight.numel() for weight in self.parameters())} weights"

    def predict(self, examples: Examples) -> tuple[Tensor, Tensor | None]:
        """Returns quantiles of demand and of the new nodes needed, in nodes.

        The shapes are [batch, buckets, horizon, levels] and [batch, buckets, levels].
        """
        inputs = (examples.target, examples.time) + ((examples.state,) if self.takes_state else ())
        outputs = self(*inputs)
        return outputs if self.gives_headroom else (outputs, None)

    def calibration(self, validation: list[Examples]) -> tuple[list[float], list[float], list[float]]:
        """Returns the levels, and for each level two fractions of the examples.

        These are the fraction below the quantile and the fraction not above it. Quantiles are
        rounded to whole nodes. The examples are needs, or demand of the next tick if the network
        has no output `headroom`.
        """
        below, within = [], []
        with torch.no_grad():
            for examples in validation:
                quantiles, headroom = self.predict(examples)
                actual = examples.need if headroom is not None else examples.ahead[..., 0]
                forecast = torch.round(headroom if headroom is not None else quantiles[:, :, 0])
                below.append((actual[..., None] < forecast).float().mean((0, 1)).cpu().numpy())
                within.append((actual[..., None] <= forecast).float().mean((0, 1)).cpu().numpy())
        return list(self.config.levels), np.mean(below, 0).tolist(), np.mean(within, 0).tolist()

    def save(self, folder: Path, training: dict[str, Any]) -> None:
        """Writes the weights, and with them the configuration and the settings of the training."""
        weights = {name: value.cpu() for name, value in self.state_dict().items()}
        torch.save(weights, folder / "weights.pt")
        config = {"network": self.name, "config": asdict(self.config), "training": training}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
