# A figure that is saved, and not shown twice for it.
# expect images: 1
# expect output: plot.png image/png
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(4, 3))
axes.scatter(range(10), range(10))
figure.savefig("plot.png", dpi=80)
plt.show()
