# Two figures that are left open, and one that is closed.
# expect images: 2
import matplotlib.pyplot as plt

for number in range(2):
    figure, axes = plt.subplots()
    axes.bar(["a", "b"], [number, 2])
plt.figure()
plt.close()
