# Several plots in one cell, each left open.
# expect images: 2
import matplotlib.pyplot as plt
for kind in ["bar", "barh"]:
    plt.figure()
    getattr(plt, kind)(["a", "b"], [1, 2])
    plt.title(kind)
