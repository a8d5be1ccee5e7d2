# Processes that share memory, a lock and a queue.
# expect stdout: 4000
# expect result: [0, 1, 2, 3]
import multiprocessing


def count(number, total, results):
    for _ in range(1000):
        with total.get_lock():
            total.value += 1
    results.put(number)


total, results = multiprocessing.Value("i", 0), multiprocessing.Queue()
processes = [
    multiprocessing.Process(target=count, args=(number, total, results)) for number in range(4)
]
for process in processes:
    process.start()
numbers = sorted(results.get() for _ in processes)
for process in processes:
    process.join()
print(total.value)
numbers
