# A table described as the value of the cell.
# expect mime: text/html
import pandas as pd
df = pd.DataFrame({"price": [10.0, 12.5, 9.0], "qty": [1, 3, 2]})
df.describe()
