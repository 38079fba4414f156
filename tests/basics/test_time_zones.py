import re
from datetime import datetime, timedelta

import pytest

from headwater.basics.time_zones import time_zone_of


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("+01:00", 1), ("-0530", -5.5), ("GMT+8", 8), ("UTC-3", -3), ("Asia/Tokyo", 9)],
)
def test_a_zone_by_the_names_spark_takes(name, hours):
    assert time_zone_of(name).utcoffset(datetime(2024, 1, 1)) == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["Nowhere/Land", "+1:2:3:4"])
def test_a_name_of_no_zone(name):
    with pytest.raises(ValueError, match=re.escape(name)):
        time_zone_of(name)
