"""Plots of a training run."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray


def learning_curve(steps: list[int], train: list[float], validate: list[float], path: Path) -> None:
    """Plots the training and validation loss by step.

    The axis of the losses is logarithmic, because a loss can fall by several powers of ten.
    """
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(steps, train, label="training")
    axes.plot(steps, validate, label="validation")
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    axes.legend()
    _save(figure, path)


def calibration(levels: list[float], below: list[float], within: list[float], path: Path) -> None:
    """Plots the fraction of examples below, and not above, each quantile.

    Counts are whole, so a calibrated level lies between the two fractions.
    """
    figure, axes = plt.subplots(figsize=(5, 5))
    axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    axes.fill_between(levels, below, within, alpha=0.3, label="from P(less) to P(as much or less)")
    axes.set(xlabel="level", ylabel="share of examples", xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper left")
    _save(figure, path)


def attention(weights: NDArray[np.float64], path: Path) -> None:
    """Plots a map of attention: rows attend to columns, both from the oldest tick to the last."""
    figure, axes = plt.subplots(figsize=(6, 5))
    image = axes.imshow(weights, cmap="viridis", aspect="equal", origin="upper")
    axes.set(xlabel="tick of the window that is attended to", ylabel="tick of the window")
    figure.colorbar(image, label="attention")
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
