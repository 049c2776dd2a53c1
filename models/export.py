"""Writes a trained model as one ONNX file that keeps the contract:
`python models/export.py FOLDER FILE`.

The file uses opset 18 and no custom operators, and contains the weights. It accepts any number of
rows and, unless the model is for one cluster, any number of buckets.
"""

import argparse
import json
import logging
import subprocess
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.export import Dim

import networks
from network import Network
from spec import KEY, as_json, made_up, spec_of

OPSET = 18


def export(network: Network, training: dict[str, Any], revision: str, weights: bool = False) -> onnx.ModelProto:
    """Returns the model as an ONNX graph with its spec.

    With `weights`, the metadata contain the weights as `train.py --from` reads them. Those of the
    graph are merged and transposed for inference.
    """
    network.eval()
    model = graph(network)
    del model.metadata_props[:]
    for node in model.graph.node:
        # Drop the source location of each node: it makes up half the size of a small file.
        del node.metadata_props[:]
        node.doc_string = ""
    share_equal_weights(model.graph)
    spec = json.dumps(as_json(spec_of(network, training, revision)), separators=(",", ":"), allow_nan=False)
    model.metadata_props.add(key=KEY, value=spec)
    if weights:
        model.metadata_props.add(key=networks.KEY, value=networks.as_text(network))
    onnx.checker.check_model(model, full_check=True)
    return model


def graph(network: Network) -> onnx.ModelProto:
    """Traces the model with two rows and three buckets: a size of 1 would become a constant."""
    buckets = len(network.config.buckets) if network.joint else 3
    examples = made_up(2, buckets, network.config.window)
    rows, many = Dim("batch"), None if network.joint else Dim("buckets")
    inputs = {"target": (examples.target, {0: rows, 2: many}), "time": (examples.time, {0: rows})}
    if network.takes_state:
        inputs["state"] = (examples.state, {0: rows, 1: many})
    dimensions = {name: {at: of for at, of in dims.items() if of is not None} for name, (_, dims) in inputs.items()}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network,
            tuple(values for values, _ in inputs.values()),
            input_names=list(inputs),
            output_names=["quantiles", "headroom"] if network.gives_headroom else ["quantiles"],
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            dynamic_shapes=dimensions,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def share_equal_weights(graph: onnx.GraphProto) -> None:
    """Keeps one of several equal weights.

    The exporter transposes a weight once for each step of a loop that it unrolls.
    """
    first: dict[bytes, str] = {}
    kept, renamed = [], {}
    for weight in graph.initializer:
        content = onnx.TensorProto()
        content.CopyFrom(weight)
        content.ClearField("name")
        name = first.setdefault(content.SerializeToString(deterministic=True), weight.name)
        if name == weight.name:
            kept.append(weight)
        renamed[weight.name] = name
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = renamed.get(name, name)


def revision() -> str:
    """Returns the git revision of the code, or an empty string if git fails."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder that train.py wrote")
    parser.add_argument("file", type=Path, help="the ONNX file to write")
    parser.add_argument(
        "--weights",
        action="store_true",
        help="also write the weights from which train.py --from FILE goes on; they double the size",
    )
    arguments = parser.parse_args()
    training = json.loads((arguments.folder / "config.json").read_text())["training"]
    model = export(networks.load(arguments.folder), training, revision(), arguments.weights)
    onnx.save(model, arguments.file)
    print(f"wrote {arguments.file}, {arguments.file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
