"""Draws the sales of examples/sales.csv: revenue by month and region, and by product.

    vivarium run --file examples/sales.csv --output-dir pictures examples/plot.py

Needs pandas and matplotlib.
"""

import matplotlib.pyplot as plt
import pandas as pd

sales = pd.read_csv("sales.csv")
sales["revenue"] = sales["units"] * sales["unit_price"]

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.4), width_ratios=(2, 1), layout="constrained"
)
months = sales.pivot_table(index="month", columns="region", values="revenue", aggfunc="sum") / 1000
months.plot(ax=left, linewidth=2, marker="o", markersize=3)
left.set(title="Revenue by month", ylabel="thousands", xlabel="")
left.legend(frameon=False, ncols=4, loc="lower center", fontsize=8)

products = (sales.groupby("product")["revenue"].sum() / 1000).sort_values()
bars = right.barh(products.index, products, color="tab:gray")
right.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
right.set(title="by product", xlabel="thousands")
right.margins(x=0.15)

for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
