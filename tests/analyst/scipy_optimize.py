# Minimising, integrating and testing.
# expect stdout: minimum at 1.0 1.0
# expect stdout: integral 2.0
import math

from scipy import integrate, optimize, stats

found = optimize.minimize(optimize.rosen, [0, 0], method="BFGS")
print("minimum at {:.1f} {:.1f}".format(*found.x))
print(f"integral {integrate.quad(math.sin, 0, math.pi)[0]:.1f}")
assert stats.ttest_ind([1, 2, 3, 4], [10, 11, 12, 13]).pvalue < 0.01
