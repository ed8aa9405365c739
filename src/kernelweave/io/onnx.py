"""Fitted models as ONNX graphs, for programs without Python.

    f(x) = Σ_m d_m s_m Σ_i k_m(x, x_i) coef_i + b

for linear, polynomial and Gaussian kernels on numbers, with the standardization of each view and
the normalization of each kernel. Inputs of either precision are computed in double precision.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from kernelweave._core.atomic import written
from kernelweave._core.checks import shown
from kernelweave._core.extras import missing
from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.io._onnx_probabilities import probabilities
from kernelweave.kernels.differentiable import GaussianWidths
from kernelweave.kernels.numeric import Gaussian, Linear, Polynomial
from kernelweave.views.rows import Rows

_OPSET = 17
_DOUBLE = 11  # as ONNX numbers the types
_IR = 8  # the version of the file format that belongs to the opset


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None, *, double: bool = False) -> Any:
    """A fitted classifier, regressor or one-class model as an ONNX graph.

    Input "X" (n, n_features); output "values" (n, n_machines): the decision values, or the
    predictions of a regression. Several classes have one column per machine, as in
    ``decision_function`` with ``multi_class="ovr"``. Of ``MKLSurvival`` it is the logarithm of the
    time, minus the risk. A model that has ``predict_proba`` has a second output, "probabilities"
    (n, n_classes).

    Parameters
    ----------
    model : fitted estimator
        Kernels with a weight must be ``Linear``, ``Polynomial``, ``Gaussian`` or
        ``GaussianWidths``, on dense columns of numbers that no row lacks.
    path : str or path, optional
        File to write.
    double : bool
        Whether the input is float64; else float32.

    Returns
    -------
    onnx.ModelProto
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError:
        raise missing("to_onnx needs", "onnx", "onnx") from None
    graph = _Graph()
    total = graph.values(model)
    outputs = {"values": total}
    if hasattr(model, "predict_proba"):
        outputs["probabilities"] = probabilities(graph, model.calibration_, total)
    kind = TensorProto.DOUBLE if double else TensorProto.FLOAT
    made = helper.make_model(
        helper.make_graph(
            [*graph.nodes, *(helper.make_node("Identity", [x], [n]) for n, x in outputs.items())],
            "kernelweave",
            [helper.make_tensor_value_info("X", kind, ["n", int(model.n_features_in_)])],
            [helper.make_tensor_value_info(n, TensorProto.DOUBLE, ["n", None]) for n in outputs],
            graph.constants,
        ),
        producer_name="kernelweave",
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
    )
    checker.check_model(made)
    if path is not None:
        with written(path) as file:
            file.write(made.SerializeToString())
    return made


class _Graph:
    """Nodes and constants; every method adds some and returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def values(self, model: Any) -> str:
        """f(x) of all machines."""
        bank = getattr(model, "bank_", None)
        if bank is None:
            raise TypeError(
                f"model must be a fitted estimator of kernelweave, found {shown(model)}"
            )
        if bank.table.sparse:
            raise ValueError("the model was fitted on sparse rows, which ONNX graphs do not take")
        coef = np.asarray(model.dual_coef_)  # (k, n)
        weights = np.broadcast_to(model.weights_, (len(coef), bank.m_all))
        whole = self.add("Cast", "X", to=_DOUBLE)
        total = self.constant(np.asarray(model.intercept_).reshape(1, -1))
        for number in np.flatnonzero(weights.any(axis=0)):
            member = bank.members[number]
            _check(member, bank)
            K = self.kernel(member, whole, bank)
            # runtimes fuse a product with one number, and round that number to single precision
            scale = 1.0 if np.isnan(member.scale) else member.scale
            part = self.constant((coef * (scale * weights[:, number, None])).T)
            total = self.add("Add", total, self.add("MatMul", K, part))
        return total

    def kernel(self, member: Member, whole: str, bank: FittedBank) -> str:
        """One kernel of new rows against the support rows, normalized up to its scale."""
        kernel, normalizer, places = member.kernel, member.normalizer, bank.places
        assert kernel is not None and normalizer is not None
        x = self.add("Gather", whole, self.constant(np.array(member.view.columns)), axis=1)
        if member.view.filling is not None:
            x = self.filled(x, member.view.filling)
        if member.view.shift is not None and member.view.factor is not None:
            x = self.add("Sub", x, self.constant(member.view.shift))
            x = self.add("Mul", x, self.constant(member.view.factor))
        table = bank.table if member.centered else bank.table.take(places)
        K, own = _KINDS[type(kernel)](self, kernel, x, Rows(table, member.view).values)
        norms = normalizer.inverse_norms
        if normalizer.means is not None:
            every = len(normalizer.means)
            counts = np.ones(every) if normalizer.weights is None else normalizer.weights
            share = (counts / counts.sum())[:, None]
            half = float(normalizer.means @ share[:, 0])
            mean = self.add("Sub", self.add("MatMul", K, self.constant(share)), self.number(half))
            K = self.add("Gather", K, self.constant(places), axis=1)
            K = self.add("Sub", self.add("Sub", K, mean), self.constant(normalizer.means[places]))
            own = self.add("Sub", own, self.add("Mul", mean, self.number(2.0)))
            norms = None if norms is None else norms[places]
        if norms is None:
            return K
        some = self.add("Greater", own, self.number(0.0))  # 0 where k(x, x) = 0
        root = self.add("Sqrt", self.add("Where", some, own, self.number(1.0)))
        inverse = self.add("Div", self.add("Cast", some, to=_DOUBLE), root)
        return self.add("Mul", self.add("Mul", K, inverse), self.constant(norms))

    def filled(self, x: str, filling: Array) -> str:
        """x, with ``filling`` in the empty cells of rows that hold something else."""
        empty = self.add("IsNaN", x)
        held = self.add("Cast", self.add("Not", empty), to=_DOUBLE)
        count = self.add("MatMul", held, self.constant(np.ones((len(filling), 1))))
        single = self.add("And", empty, self.add("Greater", count, self.number(0.0)))
        return self.add("Where", single, self.constant(filling), x)

    def linear(self, kernel: Linear, x: str, train: Array) -> tuple[str, str]:
        """xᵀz, and |x|²."""
        squares = self.add("Mul", x, x)
        own = self.add("MatMul", squares, self.constant(np.ones((train.shape[1], 1))))
        return self.add("MatMul", x, self.constant(np.ascontiguousarray(train.T))), own

    def polynomial(self, kernel: Polynomial, x: str, train: Array) -> tuple[str, str]:
        """(xᵀz + offset)^degree, and the same of x with itself."""
        offset, degree = self.number(float(kernel.offset)), self.number(float(kernel.degree))
        products = self.linear(Linear(), x, train)
        K, own = (self.add("Pow", self.add("Add", one, offset), degree) for one in products)
        return K, own

    def gaussian(self, kernel: Gaussian, x: str, train: Array) -> tuple[str, str]:
        """exp(−|x − z|² / (2 width²)), from rows around their mean, which keeps digits; and 1."""
        center = train.mean(axis=0)
        x, z = self.add("Sub", x, self.constant(center)), train - center
        products, own = self.linear(Linear(), x, z)
        squares = self.constant(np.square(z).sum(axis=1))
        doubled = self.add("Mul", products, self.number(2.0))
        distances = self.add("Sub", self.add("Add", squares, own), doubled)
        near = self.add("Max", distances, self.number(0.0))
        rate = self.number(-0.5 / float(kernel.width) ** 2)
        nothing = self.add("Mul", own, self.number(0.0))
        return self.add("Exp", self.add("Mul", near, rate)), self.add("Exp", nothing)

    def gaussian_widths(self, kernel: GaussianWidths, x: str, train: Array) -> tuple[str, str]:
        """The same with rows in units of the widths."""
        widths = np.broadcast_to(np.asarray(kernel.width, dtype=np.float64), train.shape[1])
        scaled = self.add("Div", x, self.constant(widths))
        return self.gaussian(Gaussian(1.0), scaled, train / widths)

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """One more node."""
        from onnx import helper

        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        """One more array."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(array)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value: float) -> str:
        """One more number, in double precision."""
        return self.constant(np.array(value, dtype=np.float64).reshape(()))


_KINDS: dict[type, Any] = {
    Gaussian: _Graph.gaussian,
    GaussianWidths: _Graph.gaussian_widths,
    Linear: _Graph.linear,
    Polynomial: _Graph.polynomial,
}


def _check(member: Member, bank: FittedBank) -> None:
    if type(member.kernel) not in _KINDS:
        names = ", ".join(kind.__name__ for kind in _KINDS)
        raise ValueError(f"kernel {member.name!r} cannot be exported: ONNX graphs take {names}.")
    if member.view.presence or member.view.rows_of(bank.table) is not None:
        raise ValueError(
            f"kernel {member.name!r}: rows lack its view, which no ONNX graph can say."
        )
