"""A model without weights that uses the input `future`: demand stays, and announced demand is added.

`python models/tests/test_announced.py` writes `announced.onnx`, which the test of
`crates/demand/src/forecast/onnx/tests.rs` runs.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FILE = Path(__file__).parent / "announced.onnx"
WINDOW, HORIZON, LEVELS = 3, 2, [0.5, 0.9]
COVARIATES = ["week_sin", "announced"]


def made() -> onnx.ModelProto:
    """Returns the model with its spec: buckets of 4 and 6 nodes, of which the second has 5
    announced nodes.
    """
    node = helper.make_node
    nodes = [
        # The last tick of demand, 0 where it is missing: [batch, buckets, 1].
        node("Gather", ["target", "last"], ["demand"], axis=1),
        node("IsNaN", ["demand"], ["is missing"]),
        node("Where", ["is missing", "zero", "demand"], ["known demand"]),
        node("Unsqueeze", ["known demand", "ticks"], ["present"]),
        # Announced demand: [batch, buckets, horizon].
        node("Gather", ["future", "announced"], ["by tick"], axis=3),
        node("Transpose", ["by tick"], ["by bucket"], perm=[0, 2, 1]),
        # Each level has the same value: [batch, buckets, horizon, levels].
        node("Add", ["present", "by bucket"], ["sum"]),
        node("Unsqueeze", ["sum", "levels"], ["level"]),
        node("Concat", ["level"] * len(LEVELS), ["quantiles"], axis=3),
    ]
    constants = {
        "last": np.int64(WINDOW - 1),
        "announced": np.int64(COVARIATES.index("announced")),
        "zero": np.float32(0),
        "ticks": np.array([2]),
        "levels": np.array([3]),
    }
    of, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "announced",
        [
            of("target", f32, ["batch", WINDOW, "buckets"]),
            of("time", TensorProto.INT64, ["batch", WINDOW]),
            of("future", f32, ["batch", HORIZON, "buckets", len(COVARIATES)]),
        ],
        [of("quantiles", f32, ["batch", "buckets", HORIZON, len(LEVELS)])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name="")
    golden = {
        "buckets": 2,
        "target": [1, 2, 3, 4, 4, 6],
        "time": [0, 60, 120],
        "future": [0.5, 0, 0.5, 5, 0.25, 0, 0.25, 5],
        "quantiles": [4, 4, 4, 4, 11, 11, 11, 11],
    }
    spec = {
        "version": 1,
        "window": WINDOW,
        "horizon": HORIZON,
        "tick_seconds": 60,
        "levels": LEVELS,
        "covariates": COVARIATES,
        "golden": golden,
    }
    helper.set_model_props(model, {"prophet.spec": json.dumps(spec)})
    onnx.checker.check_model(model, full_check=True)
    return model


def test_the_file_is_the_model() -> None:
    assert onnx.load(FILE) == made()


def test_onnx_runtime_computes_the_golden_output() -> None:
    spec = json.loads(made().metadata_props[0].value)
    golden = spec["golden"]
    inputs = {
        "target": np.array(golden["target"], np.float32).reshape(1, WINDOW, -1),
        "time": np.array(golden["time"], np.int64).reshape(1, WINDOW),
        "future": np.array(golden["future"], np.float32).reshape(1, HORIZON, -1, len(COVARIATES)),
    }
    (quantiles,) = onnxruntime.InferenceSession(FILE).run(None, inputs)
    assert quantiles.shape == (1, 2, HORIZON, len(LEVELS))
    assert quantiles.flatten().tolist() == golden["quantiles"]


if __name__ == "__main__":
    onnx.save(made(), FILE)
