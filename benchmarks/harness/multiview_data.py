"""Five data sets of several sources: their rows, tasks of two classes, views, and kernels.

Every view has a bank of its own, and so has all of them put together (``joint``). Kernels never see
a label; widths, vocabularies, concepts and normalizations are learned on the training rows. Tables
get the default bank. Texts and networks get kernels at unit diagonal, since the lengths of a text
and the degree of a gene say little about their classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import StratifiedShuffleSplit

import kernelweave as kw
from benchmarks.harness.paper_data import fetch


@dataclass(frozen=True)
class MultiView:
    """Rows that several sources tell of, and labels ±1 of all rows for each task.

    ``train`` and ``test`` say how many rows a split draws; ``strata`` are what it keeps in
    proportion.
    """

    X: np.ndarray
    tasks: dict[str, np.ndarray]
    strata: np.ndarray
    banks: dict[str, kw.KernelBank]
    joint: kw.KernelBank
    train: int
    test: int

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows."""
        draw = StratifiedShuffleSplit(
            1, train_size=self.train, test_size=self.test, random_state=seed
        )
        return next(draw.split(self.strata, self.strata))


ABOUT = {
    "tcga": "TCGA breast tumours, 150 with all three views: micro-RNA (184 columns), messenger RNA "
    "(200) and proteins (142). Each subtype against the rest. 100 rows to train, 50 to test. "
    "Default bank on each view; concatenated: the default bank on all 526 columns.",
    "mfeat": "Handwritten digits, 2,000 in six descriptions: Fourier coefficients (76 columns), "
    "profile correlations (216), Karhunen-Loève coefficients (64), pixel averages (240), Zernike "
    "moments (47), morphology (6). Even against odd, 0–4 against 5–9, 6 and 8 each against the "
    "rest. 400 rows to train, 600 to test. Default bank on each view; concatenated: the default "
    "bank on all 649 columns.",
    "webkb": "University web pages, 1,051: words of the page (3,000) and words of the links that "
    "lead to it (1,840), weighted, rows at length 1. Course pages against others. 350 rows to "
    "train, 350 to test. Linear kernel and Gaussians of ½, 1 and 2 times the median distance on "
    "each view; concatenated: the same on all columns.",
    "reuters": "Reuters newswire, the 12,902 documents of the ModApte split: words of the title, "
    "words of the body (tf-idf, English stop words left out), and 100 latent concepts of both. The "
    "five most frequent topics, each against the rest. 1,000 rows to train, 2,000 to test. One "
    "kernel per view, at unit diagonal; concatenated: the words of title and body together.",
    "yeast": "Yeast genes, the 2,310 in both of two networks: interactions of BioGRID and "
    "associations of STRING, each restricted to these genes. The five most frequent FunCat "
    "classes of the first level, each against the rest: metabolism (01), proteins that bind (16), "
    "protein fate (14), transcription (11), cell cycle (10). 770 rows to train, 770 to test. "
    "Diffusion kernels with the normalized Laplacian and β of ½, 1, 2, 4 and 8 on each network, at "
    "unit diagonal; concatenated: the same on the union of the edges. A network is known with all "
    "its genes, those of the test rows included; their classes are not.",
}
TOPICS = 5
CONCEPTS = 100
BETAS = (0.5, 1.0, 2.0, 4.0, 8.0)


@lru_cache(maxsize=1)
def load(name: str, data: str | None) -> MultiView:
    """The data set with its tasks and kernels."""
    source, build = SETS[name]
    return build(fetch(source, data))


def tcga(data: kw.datasets.DataSet) -> MultiView:
    assert data.train is not None  # the other rows have no proteins
    X, y = data.X[data.train], data.y[data.train]
    tasks = {kind: signs(y == kind) for kind in ("Basal", "Her2", "LumA")}
    return MultiView(X, tasks, y, default_banks(data), kw.KernelBank(), 100, 50)


def mfeat(data: kw.datasets.DataSet) -> MultiView:
    digit = data.y
    tasks = {
        "even": signs(digit % 2 == 0),
        "0–4": signs(digit < 5),
        "6": signs(digit == 6),
        "8": signs(digit == 8),
    }
    return MultiView(data.X, tasks, digit, default_banks(data), kw.KernelBank(), 400, 600)


def webkb(data: kw.datasets.DataSet) -> MultiView:
    widths = (0.5, 1.0, 2.0)
    kernels = [kw.Linear(), *(kw.Gaussian(width, relative=True) for width in widths)]
    banks = {
        name: kw.KernelBank(kernels, {name: columns}, "sphere", scale=None)
        for name, columns in data.views.items()
    }
    joint = kw.KernelBank(kernels, normalize="sphere", scale=None)
    return MultiView(data.X, {"course": signs(data.y == 1)}, data.y, banks, joint, 350, 350)


def reuters(data: kw.datasets.DataSet) -> MultiView:
    words = kw.BagOfWords(TfidfVectorizer(stop_words="english"))
    counts = CountVectorizer(stop_words="english", min_df=2)
    concepts = kw.LatentConcepts(CONCEPTS, counts)
    title, body = data.views["title"], data.views["body"]
    banks = {
        "title": kw.KernelBank(words, {"title": title}, "sphere"),
        "body": kw.KernelBank(words, {"body": body}, "sphere"),
        "concepts": kw.KernelBank(concepts, normalize="sphere"),
    }
    joint = kw.KernelBank(words, normalize="sphere")
    return MultiView(data.X, *frequent(data, data.labels), banks, joint, 1000, 2000)


def yeast(data: kw.datasets.DataSet) -> MultiView:
    networks = {}
    for name, columns in data.views.items():
        genes = data.X[:, columns[0]].astype(int)
        networks[name] = data.graphs[name][genes][:, genes]
    union = networks["biogrid"].maximum(networks["string"])
    banks = {name: diffusion_bank(edges) for name, edges in networks.items()}
    first_level = [label for label in data.labels if len(label) == 2 and label != "00"]
    X = np.arange(len(data.X), dtype=float)[:, None]
    return MultiView(X, *frequent(data, first_level), banks, diffusion_bank(union), 770, 770)


SETS: dict[str, tuple[str, Callable[[kw.datasets.DataSet], MultiView]]] = {
    "tcga": ("tcga_breast_mixomics", tcga),
    "mfeat": ("mfeat", mfeat),
    "webkb": ("mv_webkb", webkb),
    "reuters": ("reuters21578_modapte", reuters),
    "yeast": ("yeast_networks", yeast),
}


def default_banks(data: kw.datasets.DataSet) -> dict[str, kw.KernelBank]:
    return {name: kw.KernelBank(views={name: columns}) for name, columns in data.views.items()}


def diffusion_bank(edges) -> kw.KernelBank:
    return kw.KernelBank(kw.Diffusion(edges, BETAS, normalized=True), normalize="sphere")


def frequent(
    data: kw.datasets.DataSet, labels: list[str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The most frequent of these labels as tasks; strata by the rarest of them that a row has."""
    members = {label: data.y[:, data.labels.index(label)] == 1 for label in labels}
    chosen = sorted(labels, key=lambda label: -members[label].sum())[:TOPICS]
    strata = np.zeros(len(data.y), dtype=int)
    for number, label in enumerate(chosen, 1):
        strata[members[label]] = number
    return {label: signs(members[label]) for label in chosen}, strata


def signs(members: np.ndarray) -> np.ndarray:
    return np.where(members, 1.0, -1.0)
