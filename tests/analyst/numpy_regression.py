# A straight line through noisy points.
# expect stdout: slope 2.0 intercept 1.0
# expect result: (2, 2)
import numpy as np

random = np.random.default_rng(1)
x = np.linspace(0, 10, 200)
y = 2 * x + 1 + random.normal(0, 0.05, x.size)
slope, intercept = np.polyfit(x, y, 1)
print(f"slope {slope:.1f} intercept {intercept:.1f}")
np.cov(x, y).shape
