# An animation's frames.
# expect video_frames: 3
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation

figure, axes = plt.subplots(figsize=(2, 2))
(line,) = axes.plot([0, 1], [0, 1])


def step(number):
    line.set_ydata([0, number])
    return (line,)


animation = FuncAnimation(figure, step, frames=3, interval=50)
plt.show()
