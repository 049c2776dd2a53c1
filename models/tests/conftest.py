"""Tests share the machine: one thread each."""

import torch

torch.set_num_threads(1)
