"""Limits each test to one thread, because tests share the machine."""

import torch

torch.set_num_threads(1)
