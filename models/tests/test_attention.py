"""Tests of the map of attention."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attention import attention, by_hour
from data import DAY
from differences import DifferencesConfig, DifferencesTransformer
from tests.test_data import series
from transformer import Transformer, TransformerConfig

SMALL = {"layers": 1, "width": 8, "window": 288}
NETWORKS = {
    "transformer": lambda: Transformer(TransformerConfig(buckets=("a", "b"), maxima=(9.0, 9.0), **SMALL)),
    "transformer-differences": lambda: DifferencesTransformer(DifferencesConfig(buckets=("a", "b"), maxima=(9.0, 9.0), **SMALL)),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_each_tick_attends_to_the_whole_window_with_a_weight_of_one(network: str) -> None:
    torch.manual_seed(1)
    later = replace(series(12 * DAY), bucket="b", start=series(1).start + 3_600)
    weights = attention(NETWORKS[network](), [series(12 * DAY), later])
    assert weights.shape == (288, 288)
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-5)
    assert weights.std() > 0.0
    hours = by_hour(weights)
    assert hours.shape == (24, 24)
    np.testing.assert_allclose(hours.sum(1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(hours[0, 0], weights[:12, :12].sum(1).mean(), rtol=1e-6)
