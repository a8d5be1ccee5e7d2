# Tables displayed in a loop, each under a heading.
# expect displays: 4
import pandas as pd
from IPython.display import Markdown, display
for name in ["north", "south"]:
    display(Markdown(f"### {name}"))
    display(pd.DataFrame({"region": [name], "sales": [10]}))
