"""Tests that an exported model computes the same as PyTorch, on any input."""

import math
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import networks
from differences import DifferencesConfig, DifferencesTransformer
from export import OPSET, export
from lstm import Lstm, LstmConfig
from network import Examples, Network
from quantile import Quantile, QuantileConfig
from spec import made_up
from transformer import Transformer, TransformerConfig


def stirred(network: DifferencesTransformer) -> Network:
    """Returns a network whose last layers do not return 0, as those of an untrained one do."""
    torch.nn.init.normal_(network.out.weight, std=0.1)
    torch.nn.init.normal_(network.linear.weight, std=0.1)
    return network


CLUSTER = {"buckets": ("a", "b", "c"), "maxima": (40.0, 80.0, 1.0)}
NETWORKS = {
    "quantile": lambda: Quantile(QuantileConfig()),
    "lstm": lambda: Lstm(LstmConfig(**CLUSTER, window=48)),
    "transformer": lambda: Transformer(TransformerConfig(**CLUSTER, window=48, width=16, layers=2, horizon=2)),
    "transformer-differences": lambda: stirred(
        DifferencesTransformer(DifferencesConfig(**CLUSTER, window=48, width=16, layers=2, horizon=2))
    ),
    "the regression alone": lambda: stirred(DifferencesTransformer(DifferencesConfig(**CLUSTER, window=48, width=16, layers=0))),
}
TRAINING = {"leads": [3, 6, 11], "logs": ["made up"]}


@pytest.fixture(scope="module", params=list(NETWORKS))
def exported(request: pytest.FixtureRequest) -> tuple[Network, onnx.ModelProto, onnxruntime.InferenceSession]:
    torch.manual_seed(1)
    network = NETWORKS[request.param]().eval()
    model = export(network, TRAINING, "none")
    return network, model, onnxruntime.InferenceSession(model.SerializeToString())


def scaled(examples: Examples, by: float) -> Examples:
    return replace(examples, target=examples.target * by, state=examples.state * by)


VECTORS = {
    "made up": lambda examples: examples,
    "zeros": lambda examples: scaled(examples, 0.0),
    "constants": lambda examples: replace(examples, target=torch.full_like(examples.target, 7.0)),
    "huge counts": lambda examples: scaled(examples, 1e5),
    "nothing known": lambda examples: replace(
        examples, target=torch.full_like(examples.target, torch.nan), state=torch.full_like(examples.state, torch.nan)
    ),
    "holes": lambda examples: replace(
        examples, target=torch.where(torch.rand(examples.target.shape) < 0.3, torch.nan, examples.target)
    ),
}


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("batch", [1, 3, 50])
def test_the_engine_computes_the_same_as_pytorch(exported, monkeypatch, vector: str, batch: int) -> None:
    network, _, session = exported
    if vector == "huge counts":
        # The fused attention rounds differently, so it can select another tick where two weights
        # are nearly equal.
        monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    torch.manual_seed(2)
    for buckets in [3] if network.joint else [1, 3, 50 if batch == 1 else 2]:
        examples = VECTORS[vector](made_up(batch, buckets, network.config.window))
        with torch.no_grad():
            expected = [values.numpy() for values in network.predict(examples) if values is not None]
        fed = {"target": examples.target.numpy(), "time": examples.time.numpy()}
        if network.takes_state:
            fed["state"] = examples.state.numpy()
        for have, want in zip(session.run(None, fed), expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(want).max())))
            assert np.isfinite(have).all()
            assert (have >= 0).all()
            assert (np.diff(have, axis=-1) >= -1e-4 * np.maximum(1.0, have[..., :-1])).all()


def test_the_file_keeps_the_contract(exported) -> None:
    _, model, _ = exported
    assert [(one.domain, one.version) for one in model.opset_import if one.domain in ("", "ai.onnx")] == [("", OPSET)]
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
    assert not [weight.name for weight in model.graph.initializer if weight.external_data]
    matrices = [weight.raw_data for weight in model.graph.initializer if len(weight.dims) == 2]
    assert len(matrices) == len(set(matrices)), "equal weights are stored once"
    assert [prop.key for prop in model.metadata_props] == ["prophet.spec"]


def test_training_goes_on_from_the_weights_of_a_file(exported, tmp_path) -> None:
    network, plain, _ = exported
    onnx.save(plain, tmp_path / "plain.onnx")
    with pytest.raises(SystemExit, match="no weights to go on from"):
        networks.load(tmp_path / "plain.onnx")
    onnx.save(export(network, TRAINING, "none", weights=True), tmp_path / "own.onnx")
    loaded = networks.load(tmp_path / "own.onnx")
    assert (loaded.name, loaded.config) == (network.name, network.config)
    for name, weight in network.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name


def test_the_decoder_does_not_use_later_points() -> None:
    torch.manual_seed(1)
    network = NETWORKS["transformer"]().eval()
    examples = made_up(2, 3, network.config.window)
    scaled_target = torch.nan_to_num(examples.target / network.maxima)
    memory = network.remember(network.encode(scaled_target, examples.time))
    points = torch.rand(2, 4, 3)
    later = points.clone()
    later[:, 2:] += 1.0
    first, second = (network.decode(some, memory, examples.time) for some in (points, later))
    assert torch.allclose(first[:, :2], second[:, :2], atol=1e-6)
    assert not torch.allclose(first[:, 2:], second[:, 2:], atol=1e-3)


def test_positions_are_sines_of_the_day_and_the_week() -> None:
    """The values are by hand, for ticks of five minutes: a day has 288, and a week 2,016."""
    network = NETWORKS["transformer"]()
    a_day_before_a_week_ends = 2_016 - 288
    ticks = torch.tensor([[0, 72, 144, 504, a_day_before_a_week_ends, 2_016, 2_016 * 2_900]])
    day = [0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0]
    week = [0.0, math.sin(math.tau / 28), math.sin(math.tau / 14), 1.0, -math.sin(math.tau / 7), 0.0, 0.0]
    expected = torch.tensor(day) + torch.tensor(week)
    # An odd quarter of a day: 504 ticks are a day and three quarters.
    assert torch.allclose(network.positions(ticks)[0, :, 0], expected, atol=1e-5)


def test_the_transformer_has_the_parameters_of_the_paper() -> None:
    network = Transformer(TransformerConfig(**CLUSTER))
    assert (len(network.encoder), len(network.decoder), network.config.periods) == (6, 6, (288, 2_016))
    assert {module.p for module in network.modules() if isinstance(module, torch.nn.Dropout)} == {0.2}
    adam, schedule = network.optimizer(rate=7.0, steps=3)
    group = adam.param_groups[0]
    assert isinstance(adam, torch.optim.Adam) and (group["betas"], group["eps"]) == ((0.9, 0.98), 1e-9)
    assert schedule.base_lrs == [1.0]
    rates = [schedule.lr_lambdas[0](step) for step in range(20_000)]
    # d^-0.5 min(step^-0.5, step warmup^-1.5), with d = 64 and 5,000 steps of warm-up.
    by_hand = {1: 3.535534e-7, 2_500: 8.838835e-4, 5_000: 1.767767e-3, 20_000: 8.838835e-4}
    assert {step: rates[step - 1] for step in by_hand} == pytest.approx(by_hand, rel=1e-6)
    assert max(rates) == rates[4_999]


def test_the_lstm_has_the_parameters_of_the_paper() -> None:
    network = Lstm(LstmConfig(**CLUSTER))
    assert (network.lstm.num_layers, network.lstm.hidden_size) == (2, 51)
    adam, schedule = network.optimizer(rate=7.0, steps=100)
    assert isinstance(adam, torch.optim.Adam) and schedule.get_last_lr() == [0.02]
    # The Huber loss: half of the square up to an error of 1, and then the error less a half.
    made = made_up(4, 3, network.config.window)
    examples = replace(made, ahead=network.maxima[:, None] * 3 * torch.rand(made.ahead.shape))
    with torch.no_grad():
        error = network.next(torch.nan_to_num(examples.target / network.maxima)) - examples.ahead[..., 0] / network.maxima
        assert (error.abs() < 1).any() and (error.abs() > 1).any()
        huber = torch.where(error.abs() < 1, error.square() / 2, error.abs() - 0.5).mean()
        assert network.loss(examples) == pytest.approx(huber.item(), rel=1e-5)


def untrained() -> DifferencesTransformer:
    config = DifferencesConfig(**CLUSTER, window=48, width=16, layers=2, horizon=2)
    return DifferencesTransformer(config).eval()


def test_an_untrained_variant_forecasts_the_last_value() -> None:
    network = untrained()
    examples = made_up(2, 3, network.config.window)
    with torch.no_grad():
        quantiles, _ = network.predict(examples)
    last = torch.nan_to_num(examples.target[:, -1, :, None, None]).expand_as(quantiles)
    assert torch.allclose(quantiles, last, rtol=1e-5, atol=1e-4)


def test_the_regression_of_the_variant_finds_a_return_to_the_mean() -> None:
    """Each tick, demand moves a fifth of the way back to the mean of the last hour."""
    torch.manual_seed(1)
    network = untrained()

    def examples(rows: int) -> Examples:
        made = made_up(rows, 3, network.config.window)
        target = network.maxima * torch.rand(made.target.shape)
        change = 0.2 * (target[:, -12:].mean(1) - target[:, -1])
        ahead = torch.stack([target[:, -1] + steps * change for steps in range(1, network.config.horizon + 1)], dim=-1)
        return replace(made, target=target, ahead=ahead)

    second = examples(1_000)
    later = replace(second, time=second.time + 604_800)
    with torch.no_grad():
        network.prepare(lambda: [examples(1_000), later])
        assert network.loss(examples(64)) < 0.01, "a share of the error of the last value"


def test_the_order_of_buckets_does_not_change_the_forecast() -> None:
    torch.manual_seed(1)
    network = NETWORKS["quantile"]().eval()
    examples = made_up(2, 4, network.config.window)
    order = torch.tensor([2, 0, 3, 1])
    turned = replace(examples, target=examples.target[..., order], state=examples.state[:, order])
    for values, other in zip(network.predict(examples), network.predict(turned), strict=True):
        assert torch.allclose(values[:, order], other, rtol=1e-4, atol=1e-4)
