# A server and its client on the loopback.
# expect result: b'HELLO'
import asyncio


async def shout(reader, writer):
    writer.write((await reader.read(100)).upper())
    await writer.drain()
    writer.close()


server = await asyncio.start_server(shout, "127.0.0.1", 0)
port = server.sockets[0].getsockname()[1]
reader, writer = await asyncio.open_connection("127.0.0.1", port)
writer.write(b"hello")
writer.write_eof()
answer = await reader.read()
writer.close()
server.close()
answer
