# Producer and consumers with threads and a queue.
# expect result: 499500
import queue
import threading

todo, done, lock = queue.Queue(), [], threading.Lock()


def consume():
    while (number := todo.get()) is not None:
        with lock:
            done.append(number)


threads = [threading.Thread(target=consume) for _ in range(4)]
for thread in threads:
    thread.start()
for number in range(1000):
    todo.put(number)
for _ in threads:
    todo.put(None)
for thread in threads:
    thread.join()
sum(done)
