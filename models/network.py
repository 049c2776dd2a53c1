"""What all networks have in common: examples as tensors, a loss, an optimizer, a folder with weights and configuration."""

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from data import Batch


@dataclass(frozen=True, kw_only=True)
class Examples:
    """A batch for a network. Counts are in nodes; NaN is missing."""

    target: Tensor
    """[batch, window, buckets]."""
    time: Tensor
    """[batch, window], Unix seconds: those of the first bucket."""
    state: Tensor
    """[batch, buckets, features]."""
    need: Tensor
    """[batch, buckets]."""
    ahead: Tensor
    """[batch, buckets, horizon]."""

    @staticmethod
    def of(batch: Batch, buckets: int, device: str = "cpu") -> "Examples":
        """Every `buckets` examples of a batch become one row."""

        def rows(values: NDArray[Any]) -> Tensor:
            return torch.as_tensor(values, device=device).unflatten(0, (-1, buckets))

        return Examples(
            target=rows(batch.target).transpose(1, 2),
            time=rows(batch.time)[:, 0],
            state=rows(batch.state),
            need=rows(batch.need),
            ahead=rows(batch.ahead),
        )


class Network(nn.Module, ABC):
    """A network that keeps the contract of `prophet.spec`."""

    name: ClassVar[str]
    joint: ClassVar[bool] = False
    """Whether its buckets are those of one cluster, seen at the same time; else any will do together."""
    takes_state: ClassVar[bool] = False
    gives_headroom: ClassVar[bool] = False

    config: Any
    """A frozen dataclass with `window`, `horizon` and `levels`."""

    @abstractmethod
    def loss(self, examples: Examples) -> Tensor:
        """What training makes small: a scalar."""

    @abstractmethod
    def optimizer(self, rate: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """How it is made small, over so many steps."""

    def describe(self) -> str:
        """Its name and size."""
        return f"{self.name}: {sum(weight.numel() for weight in self.parameters())} weights"

    def predict(self, examples: Examples) -> tuple[Tensor, Tensor | None]:
        """Quantiles of demand [batch, buckets, horizon, levels], and of the new nodes needed [batch, buckets, levels]."""
        inputs = (examples.target, examples.time) + ((examples.state,) if self.takes_state else ())
        outputs = self(*inputs)
        return outputs if self.gives_headroom else (outputs, None)

    def calibration(self, validation: list[Examples]) -> tuple[list[float], list[float], list[float]]:
        """Levels; how often less, and how often as much or less, was seen than each quantile says, in whole nodes."""
        below, within = [], []
        with torch.no_grad():
            for examples in validation:
                quantiles, headroom = self.predict(examples)
                actual = examples.need if headroom is not None else examples.ahead[..., 0]
                said = torch.round(headroom if headroom is not None else quantiles[:, :, 0])
                below.append((actual[..., None] < said).float().mean((0, 1)).cpu().numpy())
                within.append((actual[..., None] <= said).float().mean((0, 1)).cpu().numpy())
        return list(self.config.levels), np.mean(below, 0).tolist(), np.mean(within, 0).tolist()

    def save(self, folder: Path, training: dict[str, Any]) -> None:
        """Weights, and beside them the configuration that they belong to and how they were trained."""
        torch.save(self.state_dict(), folder / "weights.pt")
        config = {"network": self.name, "config": asdict(self.config), "training": training}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
