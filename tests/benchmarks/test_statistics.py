"""Numbers of a report: agreement with papers, spreads, paired tests, ranks."""

import numpy as np
import pytest
import scipy.stats


class Silent:
    def bar(self, text, measured, met):
        self.measured, self.met = measured, met


def test_comparison_with_a_paper(harness, capsys):
    ours = np.array([79.0, 81.0, 80.0, 80.0])  # mean 80, standard error √(2/3)/2
    error = np.sqrt(2.0 / 3.0) / 2.0
    comparison = harness("paired_methods").Comparison("set")
    comparison.add(("paper's error",), ours, 81.2, 0.5)
    comparison.add(("ours for both",), ours, 81.2)
    comparison.add(("too far",), ours, 81.3, 0.1)
    comparison.add(("not rounded",), np.full(3, 70.04), 70.0, 0.0)
    comparison.add(("not measured",), [], 50.0, 1.0)
    first, second, third, fourth = comparison.pairs
    assert first.allowed == pytest.approx(2.0 * np.sqrt(error**2 + 0.25))
    assert second.allowed == pytest.approx(2.0 * np.sqrt(2.0) * error)
    assert [pair.agrees for pair in (first, second, third, fourth)] == [True, False, False, False]
    assert fourth.difference == pytest.approx(0.04)
    results = Silent()
    comparison.show(results, wanted=4)
    assert results.measured == "1 of 4, 25 %" and results.met is False
    assert "too far" in capsys.readouterr().out
    comparison.show(results, wanted=5)
    assert results.met is None
    comparison.add(("one draw",), [80.0], 70.0, 0.1)
    assert comparison.pairs[-1].agrees is None
    comparison.show(results, wanted=4)
    assert results.measured == "1 of 4, 25 %"


def test_times_show_their_spread(harness):
    assert (
        harness("markdown_tables").ms({"median": 0.0021, "low": 0.002, "high": 0.0024})
        == "2.1 (2–2.4)"
    )
    assert harness("markdown_tables").ms({"median": 0.002, "low": 0.002, "high": 0.002}) == "2"


def test_splits_without_common_rows_are_independent(harness):
    test = harness("paired_methods").corrected_t_test
    differences = np.array([0.3, -0.1, 0.8, 0.4, 0.2])
    mean, half, p = test(differences, 0.0)
    plain = scipy.stats.ttest_1samp(differences, 0.0)
    assert mean == pytest.approx(0.32) and p == pytest.approx(plain.pvalue)
    assert mean + half == pytest.approx(plain.confidence_interval(0.95).high)


def test_splits_with_common_rows_prove_less(harness):
    """Nadeau and Bengio: a third of the rows to test adds n_test/n_train = 1/2 to 1/J."""
    test = harness("paired_methods").corrected_t_test
    differences = np.array([0.3, -0.1, 0.8, 0.4, 0.2])
    _, plain, _ = test(differences, 0.0)
    _, corrected, _ = test(differences, 1.0 / 3.0)
    assert corrected / plain == pytest.approx(np.sqrt((0.2 + 0.5) / 0.2))
    assert test(np.zeros(4), 0.2) == (0.0, 0.0, 1.0)


def test_ranks_and_what_tells_them_apart(harness):
    ranking = harness("ranking")
    scores = np.array([[90.0, 80.0, 80.0], [70.0, 75.0, 60.0]])
    np.testing.assert_allclose(ranking.average_ranks(scores), [1.5, 1.75, 2.75])
    # [demsar2006]: four methods on 14 sets; q for ten methods
    assert ranking.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert ranking.critical_difference(10, 1) == pytest.approx(3.164 * np.sqrt(110 / 6), abs=0.01)
    np.testing.assert_allclose(ranking.holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
    assert ranking.wilcoxon(scores[:, 0], scores[:, 0]) == 1.0
    # six differences of one sign: 2/2⁶
    assert ranking.wilcoxon(np.arange(1.0, 7.0), np.zeros(6)) == pytest.approx(1 / 32)
    assert ranking.standing(scores[:, 0], scores[:, 1]) == "1 – 0 – 1"
    alike = np.tile([3.0, 2.0, 1.0], (12, 1))
    assert ranking.friedman(alike) < 1e-4
