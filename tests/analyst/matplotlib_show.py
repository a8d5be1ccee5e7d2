# A figure that is shown.
# expect images: 1
import matplotlib.pyplot as plt

plt.plot([1, 2, 3], [1, 4, 9])
plt.title("squares")
plt.show()
