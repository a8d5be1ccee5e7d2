# An installation that can not happen does not keep the rest from running.
# expect stdout: 1
# expect stderr: any
!pip install -q pandas
import pandas as pd
print(len(pd.DataFrame({"a": [1]})))
