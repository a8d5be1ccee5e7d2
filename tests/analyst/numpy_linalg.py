# Linear algebra with threads of its own.
# expect result: True
import numpy as np

matrix = np.random.default_rng(0).random((400, 400))
np.save("matrix.npy", matrix)
matrix = np.load("matrix.npy", mmap_mode="r")
bool(np.allclose(np.linalg.inv(matrix) @ matrix, np.eye(400), atol=1e-6))
