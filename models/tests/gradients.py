"""Writes the gradients of one step: `python -m tests.gradients FILE`. Under torchrun, those that the
first process has after the exchange.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from distributed import Processes
from quantile import Quantile, QuantileConfig
from tests.test_data import series
from train import Sampler, TrainConfig

torch.manual_seed(1)
torch.set_num_threads(1)
processes = Processes.join()
# Without dropout, which differs between processes.
network = Quantile(QuantileConfig(dropout=0.0))
one = series(6_000)
# Demand of some minutes is unknown, so that the processes have different numbers of examples.
gaps = np.where(np.arange(len(one)) % 97 < 9, np.nan, one.columns["demand_max"]).astype(np.float32)
sampler = Sampler([replace(one, columns=one.columns | {"demand_max": gaps})], TrainConfig(), network, "cpu", processes)
examples = sampler.draw(np.random.default_rng(5), 32, 2)
# The module must live until the gradients are exchanged.
loss_of = processes.loss(network)
loss_of(examples).backward()
if processes.rank == 0:
    gradients = {name: weight.grad for name, weight in network.named_parameters()}
    torch.save({"rows": len(examples.time), "count": processes.count, "gradients": gradients}, Path(sys.argv[1]))
processes.end()
