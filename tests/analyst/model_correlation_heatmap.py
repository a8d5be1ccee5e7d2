# A plot that is left open, after prints.
# expect stdout: 0.99
# expect images: 1
import numpy as np
import pandas as pd
import matplotlib.pyplot as plt
rng = np.random.default_rng(0)
df = pd.DataFrame({"a": range(50)})
df["b"] = df["a"] * 2 + rng.normal(size=50)
corr = df.corr()
print(corr.round(2).loc["a", "b"] > 0.9 and 0.99)
fig, ax = plt.subplots()
im = ax.imshow(corr)
fig.colorbar(im);
