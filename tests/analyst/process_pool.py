# A pool of processes, with a function of the script's own.
# expect result: [0, 1, 4, 9, 16, 25, 36, 49]
from concurrent.futures import ProcessPoolExecutor


def square(number):
    return number * number


with ProcessPoolExecutor(max_workers=2) as pool:
    squares = list(pool.map(square, range(8)))
squares
