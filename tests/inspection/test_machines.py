"""Reports and plots of models with several machines, and of regressions."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, Linear, MKLClassifier, MKLOneClass, MKLRegressor, report

plotting = pytest.importorskip("kernelweave.inspection.plotting")
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
KERNELS = [Gaussian(1.0), Linear(), Gaussian(3.0)]


@pytest.fixture(autouse=True)
def matplotlib():
    package = pytest.importorskip("matplotlib")
    package.use("Agg")
    yield
    package.pyplot.close("all")


@pytest.fixture
def own():
    return MKLClassifier(KERNELS, shared_weights=False).fit(X, Y)


@pytest.mark.parametrize(
    "model", [MKLClassifier(KERNELS), MKLRegressor(KERNELS), MKLOneClass(KERNELS)]
)
def test_shared_weights_are_shown_as_those_of_one_machine(model):
    model.fit(X, Y)
    lines = report.weights_by_kernel(model).splitlines()
    heaviest = int(model.weights_.argmax())
    assert lines[0].startswith(f"{model.weights_[heaviest]:.3f}"[:4])
    assert lines[0].endswith(str(model.kernel_names_[heaviest]))
    assert f"{model.objective_:.6g}" in report.certificate(model)
    assert len(plotting.plot_weights(model).patches) == np.count_nonzero(model.weights_)
    assert len(plotting.plot_convergence(model).lines) == 1
    assert plotting.plot_weight_history(model).lines


def test_weights_of_their_own_are_shown_by_their_mean(own):
    mean = own.weights_.mean(axis=0)
    shown = report.weights_by_kernel(own).splitlines()[0]
    assert float(shown.split()[0]) == pytest.approx(mean.max(), abs=6e-4)
    bars = [patch.get_width() for patch in plotting.plot_weights(own).patches]
    assert bars == pytest.approx(sorted(mean[mean > 0], reverse=True))
    assert report.weights_by_view(own)


def test_the_certificate_is_of_all_machines_together(own):
    text = report.certificate(own)
    assert f"{own.objective_:.6g}" in text
    assert f"{sum(s.dual for s in own.solution_):.6g}" in text
    assert f"{own.duality_gap_:.1e}" in text


def test_every_machine_has_its_curve(own):
    axes = plotting.plot_convergence({"mine": own, "one": MKLClassifier(KERNELS).fit(X, Y)})
    names = [line.get_label() for line in axes.lines]
    assert names == ["mine, machine 0", "mine, machine 1", "mine, machine 2", "one"]
    with pytest.raises(ValueError, match="each of 3 machines has weights of its own; pass the"):
        plotting.plot_weight_history(own)
    one = plotting.plot_weight_history(own.history_[0]["weights"], names=own.kernel_names_)
    assert one.lines
