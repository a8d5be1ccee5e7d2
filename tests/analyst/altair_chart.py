# A chart that browsers draw. This version of Altair warns of pandas.
# expect mime: text/html
# expect stderr: any
import altair as alt
import pandas as pd

frame = pd.DataFrame({"month": ["a", "b"], "sales": [1, 2]})
alt.Chart(frame).mark_bar().encode(x="month", y="sales")
