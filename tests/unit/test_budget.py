"""What a retry budget refuses."""

import pytest

from outlast import Budget
from outlast.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": "a"}, "capacity is 'a'; give a number, 1 or more"),
        ({"capacity": 0.5}, "capacity is 0.5; give a number, 1 or more"),
        ({"capacity": None}, "capacity is None"),
        ({"capacity": True}, "capacity is True"),
        ({"capacity": float("inf")}, "capacity is inf"),
        ({"capacity": 10**5000}, "capacity is a number with too many digits; give"),
        ({"capacity": 10**400}, "capacity is 10{79}…; give a number, 1 or more"),
        ({"per_second": "a"}, "per_second is 'a'; give a number, 0 or more"),
        ({"per_second": -0.1}, "per_second is -0.1"),
        ({"per_second": float("nan")}, "per_second is nan"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(ConfigError, match=message):
        Budget(**settings)


def test_pitfall_19_zero_is_honoured():
    budget = Budget(1, 0)
    assert [budget.take(now) for now in (0.0, 1e9)] == [True, False]
