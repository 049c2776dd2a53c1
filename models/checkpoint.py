"""The state of a training in a file, from which an interrupted training goes on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A file with the state of a training."""

    path: Path | None
    """The file. Without one, nothing is written."""
    settings: dict[str, Any]
    """What identifies the training. A file of another one is refused."""
    parts: dict[str, Any]
    """What has a `state_dict`: the network, the optimizer and its schedule."""
    draws: np.random.Generator
    """The generator of the examples."""

    def restore(self, device: str) -> dict[str, Any] | None:
        """Restores the state of the parts, of the examples and of the dropout on a CPU.

        Returns the progress that was saved, or None if there is no file.
        """
        if self.path is None or not self.path.exists():
            return None
        state = torch.load(self.path, weights_only=True, map_location=device)
        if state["settings"] != self.settings:
            raise SystemExit(f"{self.path} is of another training: remove it, or give the same options and ticks")
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        self.draws.bit_generator.state = json.loads(state["draws"])
        torch.set_rng_state(state["dropout"].cpu())
        progress: dict[str, Any] = state["progress"]
        return progress

    def save(self, progress: dict[str, Any]) -> None:
        """Writes the state of the parts, of the examples and of the dropout, and the progress."""
        if self.path is None:
            return
        state = {
            "settings": self.settings,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "draws": json.dumps(self.draws.bit_generator.state),
            "dropout": torch.get_rng_state(),
            "progress": progress,
        }
        written = self.path.with_suffix(".new")
        torch.save(state, written)
        # An interruption leaves the old file or the new one.
        written.replace(self.path)
