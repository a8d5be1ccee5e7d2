"""Threads that wait for work, which would be in the way of an image: they are ended, and those who
have them make others when they need them.
"""

from guard import Any, call_user, load, modules, monotonic, posix

# For all of them together, on a host that is busy.
SOON_SECS = 1.0


def end_idle_threads():
    until = monotonic() + SOON_SECS
    for end in end_executors, end_monitors:
        try:
            call_user(end, until)
        except BaseException:
            pass  # They are in the way, and are named as that.


def end_executors(until):
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
        if executor._shutdown_lock.acquire(timeout=max(0, until - monotonic())):
            try:
                end_threads_of(executor, threads, threading, until)
            finally:
                executor._shutdown_lock.release()


def end_monitors(until):
    """Those of tqdm, which look at progress bars now and then; the next bar starts another."""
    monitor: Any = modules.get("tqdm._monitor")
    threading: Any = modules.get("threading")
    if monitor is None or threading is None:
        return
    monitors = [it for it in threading.enumerate() if type(it) is monitor.TMonitor]
    for thread in monitors:
        thread.was_killed.set()
    # One that waits for the lock of a bar goes on, and is in the way.
    join_until(monitors, until)


def end_threads_of(executor, threads, threading, until):
    if executor._shutdown or not executor._work_queue.empty():
        return
    if not holds_by(until, lambda: are_idle(executor, threads)):
        return
    try:
        # As for its end, which each thread tells the next.
        executor._shutdown = True
        executor._work_queue.put(None)
        join_until(executor._threads, until)
    finally:
        while not executor._work_queue.empty():
            executor._work_queue.get_nowait()
        executor._shutdown = False
        for thread in list(executor._threads):
            if not thread.is_alive():
                executor._threads.discard(thread)
        executor._idle_semaphore = threading.Semaphore(0)


def join_until(threads, until):
    """Waits for their ends; the system's threads end after Python's."""
    ended = ["/proc/self/task/%d" % thread.native_id for thread in threads]
    for thread in list(threads):
        thread.join(max(0, until - monotonic()))
    holds_by(until, lambda: not any(map(is_there, ended)))


def are_idle(executor, threads):
    """Whether all its threads wait for work. The semaphore that counts them counts too many."""
    sys: Any = modules.get("sys")
    frames = sys._current_frames()
    for thread in executor._threads:
        frame = frames.get(thread.ident)
        if frame is None or frame.f_code is not threads._worker.__code__:
            return False
        if frame.f_locals.get("work_item") is not None:
            return False
    return True


def is_there(path):
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def holds_by(until, condition):
    """Whether it does by then: a thread gives its result before it waits again."""
    time: Any = load("time")
    while not condition():
        if monotonic() > until:
            return False
        time.sleep(0.001)
    return True
