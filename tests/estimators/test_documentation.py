"""The link to its page in the HTML of an estimator."""

import pytest

from kernelweave import MKLClassifier, MKLKernelKMeans, MKLKernelTransformer
from kernelweave.estimators import _documentation


class Own(MKLClassifier):
    """A subclass of a user."""


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(_documentation, "_site", lambda: "https://docs.example/kw")


@pytest.mark.parametrize("model", [MKLClassifier(), MKLKernelKMeans(), MKLKernelTransformer()])
def test_the_page_of_the_class(site, model):
    page = f"https://docs.example/kw/api/kernelweave.{type(model).__name__}.html"
    assert model._get_doc_link() == page
    assert page in model._repr_html_()


def test_no_link_where_there_is_no_page(site, monkeypatch):
    assert Own()._get_doc_link() == ""
    monkeypatch.setattr(_documentation, "_site", lambda: "")
    assert MKLClassifier()._get_doc_link() == ""
    assert "Documentation for" not in MKLClassifier()._repr_html_()


def test_the_site_is_the_one_that_the_package_names(monkeypatch):
    class Metadata:
        def get_all(self, name):
            return ["Source, https://code", "Documentation, https://docs.example/"]

    monkeypatch.setattr(_documentation, "metadata", lambda name: Metadata())
    _documentation._site.cache_clear()
    try:
        assert _documentation._site() == "https://docs.example"
    finally:
        _documentation._site.cache_clear()
