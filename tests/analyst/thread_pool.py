# A pool of threads.
# expect result: [0, 1, 4, 9, 16]
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(max_workers=4) as pool:
    squares = list(pool.map(lambda number: number * number, range(5)))
squares
