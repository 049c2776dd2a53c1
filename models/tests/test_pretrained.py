"""Tests of the pretrained model on ONNX Runtime."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import networks
from spec import KEY, flat, made_up

PRETRAINED = Path(__file__).parents[1] / "pretrained"


def spec() -> dict:
    model = onnx.load(PRETRAINED / "quantile.onnx")
    return json.loads(next(prop.value for prop in model.metadata_props if prop.key == KEY))


def test_the_golden_input_has_the_golden_output() -> None:
    fields = spec()
    golden, window, buckets = fields["golden"], fields["window"], fields["golden"]["buckets"]
    array = lambda name, *shape: np.array(golden[name], np.float32).reshape(shape)  # noqa: E731
    fed = {
        "target": array("target", 1, window, buckets),
        "time": np.array(golden["time"], np.int64)[None],
        "state": array("state", 1, buckets, len(fields["state"])),
    }
    session = onnxruntime.InferenceSession(PRETRAINED / "quantile.onnx")
    for name, have in zip(["quantiles", "headroom"], session.run(["quantiles", "headroom"], fed), strict=True):
        np.testing.assert_allclose(have.ravel(), golden[name], rtol=1e-4, atol=1e-4)


def test_the_weights_file_equals_the_weights_in_the_onnx_file() -> None:
    network = networks.load(PRETRAINED).eval()
    examples = made_up(1, 2, network.config.window)
    assert flat(examples.target) == spec()["golden"]["target"]
    quantiles, _ = network.predict(examples)
    np.testing.assert_allclose(quantiles.detach().ravel(), spec()["golden"]["quantiles"], rtol=1e-4, atol=1e-4)
