# A plot that is left open, and a table as the value.
# expect images: 1
# expect mime: text/html
import pandas as pd
df = pd.DataFrame({"x": [1, 2, 3], "y": [2, 4, 6]})
df.plot(x="x", y="y")
df
