%%capture captured
# Output kept in a variable, and nothing shown.
# expect images: 0
import matplotlib.pyplot as plt
print("quiet")
plt.plot([1, 2, 3])
