"""Data that are made up, from a seed, with a known answer: which views matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelweave._core.checks import is_number, is_whole
from kernelweave._core.types import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


_GENES, _PROTEINS = 12, 10  # how many follow a hidden number, the first of each table


class MultiOmics(NamedTuple):
    """Tables of several views of the same patients, and what became of them.

    Attributes
    ----------
    tables : {name: DataFrame}
        One table per view: "clinical", "genes", "proteins" and "lipids". The index names the
        patients, and each table has them in an order of its own.
    y : Series
        "relapse" or "remission", by patient.
    useful : tuple of str
        The views that tell something about y; the others are noise.
    """

    tables: dict[str, DataFrame]
    y: Series
    useful: tuple[str, ...]

    @property
    def informative(self) -> dict[str, tuple[str, ...]]:
        """The columns that tell something about y, by view; the others are noise."""
        known = {
            "clinical": ("stage",),
            "genes": tuple(f"g{column}" for column in range(_GENES)),
            "proteins": tuple(f"prot{column}" for column in range(_PROTEINS)),
        }
        return {view: known[view] for view in self.useful}


def make_multiomics(
    n: int = 150, *, missing: float = 0.0, effect: float = 1.0, random_state: Any = 0
) -> MultiOmics:
    """Simulated patients with clinical data, genes, proteins and lipids.

    Two hidden numbers u and v of a patient decide about a relapse, which has the log-odds
    effect·(2u + 2(v² − 1) + (stage − 2)). Twelve of 80 genes follow u. Ten of 30 proteins follow
    v, so that both low and high values mean a relapse: a Gaussian kernel sees that, a linear one
    does not. The stage, a category of the clinical table, follows u roughly. Lipids follow nothing
    but each other. Needs pandas.

    Parameters
    ----------
    n : int
        Number of patients, at least 20.
    missing : float
        The share of patients without proteins, from 0 to 0.5; their table lacks these rows.
    effect : float
        How much the hidden numbers matter; at 0 no view is useful.
    random_state : int, Generator or None
        Seed; the same seed gives the same patients.

    Returns
    -------
    MultiOmics
        ``tables``, ``y``, ``useful`` and ``informative``.

    Examples
    --------
    >>> from kernelweave.datasets import make_multiomics
    >>> data = make_multiomics()
    >>> [(name, table.shape[1]) for name, table in data.tables.items()]
    [('clinical', 4), ('genes', 80), ('proteins', 30), ('lipids', 20)]
    """
    _check(n, missing)
    import pandas as pd

    rng = np.random.default_rng(random_state)
    u, v, shared = rng.standard_normal((3, n))
    stage = np.digitize(u + rng.standard_normal(n), [-0.5, 0.8]) + 1
    odds = effect * (2.0 * u + 2.0 * (v**2 - 1.0) + (stage - 2.0))
    patients = np.array([f"p{number:04d}" for number in range(n)])
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-odds)), "relapse", "remission")

    def table(prefix: str, columns: int, hidden: Array, followers: int) -> DataFrame:
        """Standard normal columns, of which the first ``followers`` follow a hidden number."""
        values = rng.standard_normal((n, columns))
        values[:, :followers] = 0.7 * values[:, :followers] + 0.7 * hidden[:, None]
        return pd.DataFrame(values, patients, [f"{prefix}{column}" for column in range(columns)])

    clinical = {
        "age": np.round(60.0 + 10.0 * rng.standard_normal(n)),
        "bmi": np.round(26.0 + 4.0 * rng.standard_normal(n), 1),
        "sex": pd.Categorical(rng.choice(["female", "male"], n)),
        "stage": pd.Categorical.from_codes(stage - 1, ["I", "II", "III"]),
    }
    tables = {
        "clinical": pd.DataFrame(clinical, index=patients),
        "genes": table("g", 80, u, _GENES),
        "proteins": table("prot", 30, v, _PROTEINS),
        "lipids": table("lip", 20, shared, 20),
    }
    tables = {name: one.loc[rng.permutation(patients)] for name, one in tables.items()}
    tables["proteins"] = tables["proteins"].iloc[round(missing * n) :]
    useful = ("clinical", "genes", "proteins") if effect else ()
    return MultiOmics(tables, pd.Series(y, index=patients, name="outcome"), useful)


def _check(n: int, missing: float) -> None:
    if not is_whole(n) or n < 20:
        raise ValueError(f"n must be a whole number, at least 20, found {n!r}")
    if not is_number(missing) or not 0.0 <= missing <= 0.5:
        raise ValueError(f"missing must be a share from 0 to 0.5, found {missing!r}")
