"""One real error for each category."""

import pytest

import outlast
from outlast.errors import ConfigError
from outlast.testing import sample_error


@pytest.mark.parametrize("category", list(outlast.Category))
def test_every_category_has_an_error_that_the_classifier_judges_so(category):
    assert outlast.classify(sample_error(category)).category is category
    assert outlast.classify(sample_error(category.value)).category is category
    assert sample_error(category) is not sample_error(category)


@pytest.mark.parametrize("category", ["rate_limit", "api_temporary"])
def test_a_server_may_ask_to_wait(category):
    assert outlast.classify(sample_error(category, retry_after=3)).retry_after == 3


def test_only_what_a_server_reports_can_ask_to_wait():
    with pytest.raises(ConfigError, match="network is not an answer of a server"):
        sample_error("network", retry_after=3)


def test_rules_of_ones_own_that_judge_the_error_otherwise_are_named():
    rule = outlast.Rule(category="configuration", name="gone for good", status=404)
    before = outlast.use_classifier(outlast.Classifier([rule]))
    try:
        with pytest.raises(
            ConfigError, match=r"your rule 'rule: gone for good' classifies .* as configuration, not as not_found"
        ):
            sample_error("not_found")
    finally:
        outlast.use_classifier(before)
