# Concurrent tasks, awaited at the top level.
# expect stdout: slow after fast
# expect result: [1, 2, 3]
import asyncio

order = []


async def work(number, event=None):
    if event is not None:
        await event.wait()
    order.append(number)
    return number


done = asyncio.Event()


async def release():
    done.set()


results = await asyncio.gather(work(1, done), work(2), work(3), release())
print("slow after fast" if order[-1] == 1 else order)
results[:3]
