"""Charts: bars stand where they should, to scale, within the drawing."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.report.text_format import CATEGORIES
from outlast.web.charts import Series, axis_maximum, category_series, sparkline, stacked_chart

BEGIN = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)


def steps(number, step=120.0):
    return [BEGIN + timedelta(seconds=step * place) for place in range(number)]


def series(counts, label="done"):
    return Series(label, False, label, ("task", "tasks"), counts, "tasks", {})


def test_bars_are_drawn_to_scale_and_stacked():
    chart = stacked_chart("x", "Failures", [series([10, 0, 5]), series([10, 20, 0])], steps(3), 120.0)
    (first, third), (above, second) = chart.drawn[0].bars, chart.drawn[1].bars
    assert chart.most == 20
    assert first.height == pytest.approx(2 * third.height, abs=0.02)
    assert second.height == pytest.approx(2 * first.height, abs=0.02)
    assert above.y + above.height == pytest.approx(first.y, abs=0.02)
    assert first.x < second.x < third.x
    assert [tick.text for tick in chart.y_ticks] == ["0", "10", "20"]
    assert second.y == pytest.approx(chart.y_ticks[2].at, abs=0.02)


def test_a_bar_says_what_it_stands_for():
    chart = stacked_chart("x", "Done", [series([1, 1200])], steps(2), 120.0)
    assert [bar.title for bar in chart.drawn[0].bars] == ["10:00 UTC: 1 task", "10:02 UTC: 1,200 tasks"]
    assert chart.label == "Done, the last 4 min: done 1,201"


def test_an_axis_can_count_per_minute():
    chart = stacked_chart("x", "Done", [series([100, 200])], steps(2), 120.0, per=60.0)
    assert chart.most == 100
    assert sum(chart.drawn[0].series.counts) == 300


def test_a_chart_without_anything_is_still_one():
    chart = stacked_chart("x", "Failures", [], steps(30), 120.0)
    assert (chart.drawn, chart.most, chart.label) == ((), 4.0, "Failures, the last 1 h: nothing happened")


@pytest.mark.parametrize(
    ("number", "step", "texts"),
    [
        (30, 120.0, ["60 min ago", "45 min", "30 min", "15 min", "now"]),
        (48, 1800.0, ["24 h ago", "18 h", "12 h", "6 h", "now"]),
        (42, 14_400.0, ["7 d ago", "5.25 d", "3.5 d", "1.75 d", "now"]),
    ],
)
def test_the_axis_of_time_counts_back_from_now(number, step, texts):
    chart = stacked_chart("x", "Done", [series([0] * number)], steps(number, step), step)
    assert [tick.text for tick in chart.x_ticks] == texts
    assert [tick.at for tick in chart.x_ticks] == [0, 25, 50, 75, 100]


@given(st.floats(0.0, 1e12))
def test_the_top_of_an_axis_is_never_below_what_it_shows(number):
    top = axis_maximum(number)
    assert number <= top <= max(4.0, number * 2.0000001)


@given(st.lists(st.lists(st.integers(0, 10**9), min_size=12, max_size=12), min_size=1, max_size=5))
def test_all_bars_stand_within_the_drawing(counts):
    chart = stacked_chart("x", "Failures", [series(each) for each in counts], steps(12), 120.0)
    for bar in (bar for drawn in chart.drawn for bar in drawn.bars):
        assert 0 <= bar.x <= bar.x + bar.width <= 100
        assert bar.height > 0
        assert -2 <= bar.y <= bar.y + bar.height <= 90


@pytest.mark.parametrize(
    ("step", "since", "until"),
    [(120.0, "20261115T1002", "20261115T1004"), (20.0, "20261115T100020", "20261115T100040")],
)
def test_a_bar_leads_to_its_time_where_the_list_knows_times(step, since, until):
    chart = stacked_chart("x", "Failures", category_series({"network": [0, 3]}), steps(2, step), step)
    (bar,) = chart.drawn[0].bars
    assert bar.time == {"since": since, "until": until}
    done = stacked_chart("x", "Done", [series([0, 3])], steps(2, step), step)
    assert done.drawn[0].bars[0].time == {}


def test_all_bars_of_a_sparkline_are_one_path():
    assert sparkline([1, 0, 2], "Failures").path == "M0 50h27.33V100h-27.33zM66.67 0h27.33V100h-27.33z"


@given(st.lists(st.integers(0, 10**9), max_size=50))
def test_a_sparkline_is_as_high_as_its_highest_bar(counts):
    bars = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)V100h-\3z", sparkline(counts, "Failures").path)
    assert len(bars) == sum(1 for number in counts if number)
    assert not bars or min(float(y) for _, y, _ in bars) == 0
    assert all(0 <= float(y) <= 90 and float(x) + float(width) <= 100.01 for x, y, width in bars)


def test_categories_have_a_colour_and_a_list_behind_them():
    network, data, strange = category_series({"network": [1], "data": [2], "of_tomorrow": [3]})
    assert (network.look, network.hatched) == ("network", False)
    assert (data.look, data.hatched) == ("data", True)
    assert (strange.look, strange.params) == ("none", {"category": "of_tomorrow"})
    assert network.page == "failures"


def test_many_categories_are_drawn_as_few_and_all_of_them_are_named():
    counts = {category: [number, 1] for number, category in enumerate(CATEGORIES)}
    chart = stacked_chart("x", "Failures", category_series(counts), steps(2), 120.0)
    assert [each.series.label for each in chart.drawn[:-1]] == [series.label for series, _ in chart.legend[-5:]]
    assert chart.drawn[-1].series.label == "others"
    assert sum(sum(each.series.counts) for each in chart.drawn) == sum(total for _, total in chart.legend)
    assert [series.params["category"] for series, _ in chart.legend] == list(CATEGORIES)
    assert chart.drawn[-1].bars[0].title == "10:00 UTC: 36 failures of other categories"


@pytest.mark.parametrize(
    ("number", "texts"),
    [(0, ["0", "2", "4"]), (5, ["0", "3", "6"]), (15_000, ["0", "10k", "20k"]), (1_100_000, ["0", "1M", "2M"])],
)
def test_the_other_axis_has_short_whole_numbers(number, texts):
    chart = stacked_chart("x", "Done", [series([number])], steps(1), 120.0)
    assert [tick.text for tick in chart.y_ticks] == texts
