"""Training in several processes that `torchrun` starts: each computes the gradients of its share of
a batch, and all take the same step with the mean of the gradients.

Without torchrun, there is one process, which computes all of it.
"""

import os
import sys
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from network import Examples, Network


class Loss(nn.Module):
    """The loss of a network as a module, because gradients are averaged over calls of a module."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, examples: Examples) -> Tensor:
        """Returns the loss of some examples."""
        return self.network.loss(examples)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """The processes of a training run, and which of them this one is."""

    rank: int = 0
    count: int = 1

    @staticmethod
    def join() -> "Processes":
        """Waits for the other processes of torchrun, whose number is in the environment."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Processes()
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return Processes(rank=distributed.get_rank(), count=distributed.get_world_size())

    def end(self) -> None:
        """Ends the communication with the other processes and, if there are others, this process.

        It must be the last statement of a program. The threads of gloo live on after
        `destroy_process_group`, and one of them can wait for the lock of the interpreter. If the
        interpreter were finalized meanwhile, that thread would abort the process.
        """
        if self.count > 1:
            distributed.destroy_process_group()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    def device(self) -> str:
        """Returns the device of this process: a GPU of its own, if the machine has GPUs."""
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"

    def loss(self, network: Network) -> nn.Module:
        """Returns the loss of a network, whose gradients are means over the processes."""
        return DistributedDataParallel(Loss(network)) if self.count > 1 else Loss(network)

    def share(self, rows: int) -> slice:
        """Returns the rows of a batch that this process takes.

        All shares are equal, so that the mean of their means is the mean over the batch.
        """
        if rows % self.count:
            raise SystemExit(f"--batch {rows} is no multiple of the number of processes, {self.count}")
        return slice(self.rank * rows // self.count, (self.rank + 1) * rows // self.count)

    def mean(self, values: list[float], device: str) -> float:
        """Returns the mean of the values of all processes."""
        total = torch.tensor([sum(values), float(len(values))], dtype=torch.float64, device=device)
        if self.count > 1:
            distributed.all_reduce(total)
        return float(total[0] / total[1])
