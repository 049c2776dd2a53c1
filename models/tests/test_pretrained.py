"""Tests of the pretrained model on ONNX Runtime."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import networks
from spec import KEY, flat, made_up
from train import TrainConfig

PRETRAINED = Path(__file__).parents[1] / "pretrained"


def spec() -> dict:
    model = onnx.load(PRETRAINED / "quantile.onnx")
    return json.loads(next(prop.value for prop in model.metadata_props if prop.key == KEY))


def test_the_configuration_has_the_fields_of_the_code_that_trains() -> None:
    training = json.loads((PRETRAINED / "config.json").read_text())["training"]
    assert set(training) == {field.name for field in fields(TrainConfig)} | {"logs"}


def test_the_golden_input_has_the_golden_output() -> None:
    have = spec()
    golden, window, buckets = have["golden"], have["window"], have["golden"]["buckets"]
    array = lambda name, *shape: np.array(golden[name], np.float32).reshape(shape)  # noqa: E731
    fed = {
        "target": array("target", 1, window, buckets),
        "time": np.array(golden["time"], np.int64)[None],
        "state": array("state", 1, buckets, len(have["state"])),
    }
    session = onnxruntime.InferenceSession(PRETRAINED / "quantile.onnx")
    for name, found in zip(["quantiles", "headroom"], session.run(["quantiles", "headroom"], fed), strict=True):
        np.testing.assert_allclose(found.ravel(), golden[name], rtol=1e-4, atol=1e-4)


def test_the_weights_file_equals_the_weights_in_the_onnx_file() -> None:
    network = networks.load(PRETRAINED).eval()
    examples = made_up(1, 2, network.config.window)
    assert flat(examples.target) == spec()["golden"]["target"]
    quantiles, _ = network.predict(examples)
    np.testing.assert_allclose(quantiles.detach().ravel(), spec()["golden"]["quantiles"], rtol=1e-4, atol=1e-4)
