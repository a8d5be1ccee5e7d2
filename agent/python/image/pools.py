"""Threads that wait for work, which would be in the way of an image: they are ended, and those who
have them make others when they need them.
"""

from guard import Any, call_user, modules


def end_idle_threads():
    try:
        call_user(end_executors)
    except BaseException:
        pass  # They are in the way, and are named as that.


def end_executors():
    """Those of concurrent.futures, of which event loops have one too (asyncio.to_thread)."""
    threads: Any = modules.get("concurrent.futures.thread")
    threading: Any = modules.get("threading")
    executors = {}
    for thread in list(getattr(threads, "_threads_queues", ())):
        # What it was started with, while it runs: a weak reference to its executor, and its queue.
        arguments = getattr(thread, "_args", None)
        executor: Any = arguments[0]() if arguments else None
        if type(executor) is threads.ThreadPoolExecutor:
            executors[id(executor)] = executor
    for executor in executors.values():
        with executor._shutdown_lock:
            end_threads_of(executor, threading)


def end_threads_of(executor, threading):
    idle = executor._idle_semaphore._value
    if executor._shutdown or idle != len(executor._threads) or not executor._work_queue.empty():
        return
    # As for its end, which each thread tells the next.
    executor._shutdown = True
    executor._work_queue.put(None)
    for thread in executor._threads:
        thread.join()
    executor._work_queue.get_nowait()
    executor._threads.clear()
    executor._idle_semaphore = threading.Semaphore(0)
    executor._shutdown = False
