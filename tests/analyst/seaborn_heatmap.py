# Seaborn draws with matplotlib.
# expect images: 1
import numpy as np
import seaborn as sns

axes = sns.heatmap(np.arange(9).reshape(3, 3), annot=True)
axes.set_title("a heat map")
None
