# Daily values to monthly means, missing days filled.
# expect result: {'2026-01': 15.0, '2026-02': 44.5}
import pandas as pd

days = pd.date_range("2026-01-01", "2026-02-28", freq="D")
values = pd.Series(range(len(days)), index=days, dtype=float)
values.iloc[5] = float("nan")
monthly = values.interpolate().groupby(values.index.strftime("%Y-%m")).mean()
monthly.to_dict()
