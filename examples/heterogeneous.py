"""
Networks and texts: real data of several kinds
==============================================

Each source becomes a kernel; MKL weights them. Is the combination better than each source alone,
and than equal weights? Set KERNELWEAVE_DATA to the data folder; the example needs two files:

- yeast_networks.npz: interactions of yeast genes from BioGRID and STRING, and their functional
  classes, from R's package bionetdata;
- reuters21578_modapte.jsonl.gz: newswire stories of 1987 in the ModApte split.

:doc:`The guide </guides/heterogeneous>` shows what it prints where both are found.
"""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import roc_auc_score

from kernelweave import BagOfWords, Diffusion, Graph, KernelBank, LatentConcepts, learn
from kernelweave.datasets import load


def main():
    try:
        yeast, reuters = load("yeast_networks"), load("reuters21578_modapte")
    except FileNotFoundError as error:
        print(f"The data for this example were not found.\n\n{error}\n")
        print("The docstring of this file describes the two files.")
        return
    genes(yeast)
    stories(reuters)


def genes(data):
    """Predict the function of a gene from its neighbors in two networks."""
    print("Function of yeast genes from two networks: area under the ROC curve on 1,310 test genes")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.X))
    train, test = order[:1000], order[1000:]
    # Columns "biogrid" and "string" of X hold the node of each gene in that network.
    kernels = [
        (name, Diffusion(Graph(graph), beta=5.0, normalized=True), data.views[name])
        for name, graph in data.graphs.items()
    ]
    bank = KernelBank(kernels, normalize="center+trace").fit(data.X[train])
    classes = {
        "01": "metabolism",
        "10": "cell cycle",
        "11": "transcription",
        "14": "protein fate",
        "20": "transport",
        "42": "cell parts",
    }
    compare(
        bank.stack,
        bank.cross_stack(data.X[test]),
        bank.names,
        {told: data.y[:, data.labels.index(number)] for number, told in classes.items()},
        train,
        test,
    )


def stories(data):
    """Predict the topics of a story from its title, its words and its concepts."""
    print("\nTopics of newswire stories: area under the ROC curve on 2,000 test stories")
    rng = np.random.default_rng(0)
    train = rng.permutation(np.flatnonzero(data.train))[:500]
    test = rng.permutation(np.flatnonzero(~data.train))[:2000]
    counts = CountVectorizer(stop_words="english", min_df=2)
    kernels = [
        ("title", BagOfWords(TfidfVectorizer(stop_words="english")), data.views["title"]),
        ("words", BagOfWords(TfidfVectorizer(stop_words="english")), data.views["body"]),
        ("concepts", LatentConcepts(100, vectorizer=counts), [0, 1]),
    ]
    bank = KernelBank(kernels, normalize="center+trace").fit(data.X[train])
    topics = ("acq", "money-fx", "grain", "crude", "trade", "interest")
    compare(
        bank.stack,
        bank.cross_stack(data.X[test]),
        bank.names,
        {topic: data.y[:, data.labels.index(topic)] for topic in topics},
        train,
        test,
    )


def compare(stack, cross, names, tasks, train, test):
    """One line per task: scores of each kernel, equal and learned weights; then the weights."""
    print(" ".join(f"{word:>14}" for word in ["", *names, "equal", "learned", "weights"]))
    scores = []
    for task, labels in tasks.items():
        y = 2.0 * labels - 1.0
        solutions = [
            learn(stack.select([k]), y[train], C=10.0, learner="uniform") for k in range(len(names))
        ]
        decisions = [cross[k] @ one.coef for k, one in enumerate(solutions)]
        for learner in ("uniform", "auto"):
            solution = learn(stack, y[train], C=10.0, learner=learner)
            decisions.append(np.tensordot(solution.weights, cross, 1) @ solution.coef)
        scores.append([roc_auc_score(y[test], decision) for decision in decisions])
        told = " ".join(f"{score:14.3f}" for score in scores[-1])
        print(f"{task:>14} {told}    " + " ".join(f"{w:.2f}" for w in solution.weights))
    told = " ".join(f"{score:14.3f}" for score in np.mean(scores, axis=0))
    print(f"{'mean':>14} {told}")
    table = np.array(scores)
    best, equal, learned = table[:, :-2].max(axis=1), table[:, -2], table[:, -1]
    print(
        f"better than the best source alone in {np.sum(learned > best)} of {len(tasks)} tasks with "
        f"learned weights, in {np.sum(equal > best)} with equal ones"
    )


if __name__ == "__main__":
    main()
