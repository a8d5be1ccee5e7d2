# Dates, time zones and a calendar.
# expect stdout: 2026-03-29T03:30:00+02:00
# expect stdout: 366
import calendar
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

moment = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)
print(moment.astimezone(ZoneInfo("Europe/Berlin")).isoformat())
print((datetime(2025, 1, 1) - datetime(2024, 1, 1)) // timedelta(days=1))
assert calendar.isleap(2024)
