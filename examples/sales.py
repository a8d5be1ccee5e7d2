"""A year of sales: what sold where, how it moved, and which month does not fit.

    vivarium run --file examples/sales.csv examples/sales.py

Needs nothing but Python's standard library.
"""

import csv
from collections import defaultdict
from statistics import mean, stdev

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values):
    low, high = min(values), max(values)
    step = (high - low) / (len(BARS) - 1) or 1
    return "".join(BARS[round((value - low) / step)] for value in values)


def growth_per_month(values):
    """Slope of the least-squares line, as a share of the mean."""
    xs = range(len(values))
    x_mean, y_mean = mean(xs), mean(values)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, values))
    return slope / sum((x - x_mean) ** 2 for x in xs) / y_mean


with open("sales.csv", newline="") as file:
    rows = list(csv.DictReader(file))

by_region: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
by_product: dict[str, float] = defaultdict(float)
by_month: dict[str, float] = defaultdict(float)
units: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
for row in rows:
    revenue = int(row["units"]) * float(row["unit_price"])
    by_region[row["region"]][row["month"]] += revenue
    by_product[row["product"]] += revenue
    by_month[row["month"]] += revenue
    units[row["region"], row["product"]][row["month"]] = int(row["units"])

months = sorted(by_month)
total = sum(by_month.values())
print(f"{len(rows)} rows, {months[0]} to {months[-1]}, revenue {total:,.0f}\n")

print(f"{'region':8}{'revenue':>12}{'share':>8}   {'by month':14}{'trend':>10}")
for region, series in sorted(by_region.items(), key=lambda item: -sum(item[1].values())):
    values = [series[month] for month in months]
    # Against the whole, so that the season is taken out.
    share = [series[month] / by_month[month] for month in months]
    trend = growth_per_month(share)
    print(
        f"{region:8}{sum(values):12,.0f}{sum(values) / total:8.1%}   "
        f"{sparkline(values):14}{trend:+9.1%}/m"
    )

print()
widest = max(by_product.values())
for product, revenue in sorted(by_product.items(), key=lambda item: -item[1]):
    print(f"{product:8}{revenue:12,.0f}   {'█' * round(32 * revenue / widest)}")

# What a month should have sold: the product's share of its region's year, times the month.
print("\nfurthest from what the season explains:")
season = {month: by_month[month] / total for month in months}
found = []
for (region, product), series in units.items():
    year = sum(series.values())
    off = {month: sold / (year * season[month]) - 1 for month, sold in series.items()}
    spread = stdev(off.values())
    found += [
        (abs(value) / spread, region, product, month, series[month], value)
        for month, value in off.items()
    ]
for sigmas, region, product, month, sold, value in sorted(found, reverse=True)[:3]:
    print(f"  {month}  {region:6} {product:6} {sold:4} units  {value:+7.1%}  {sigmas:.1f} sigma")
