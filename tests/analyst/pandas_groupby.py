# A table grouped, pivoted, and shown as HTML.
# expect mime: text/html
# expect stdout: (2, 2)
import pandas as pd

sales = pd.DataFrame({
    "region": ["north", "south", "north", "south"],
    "year": [2025, 2025, 2026, 2026],
    "amount": [10, 20, 30, 40],
})
table = sales.pivot_table(index="region", columns="year", values="amount", aggfunc="sum")
print(table.shape)
assert table.loc["south", 2026] == 40
table
