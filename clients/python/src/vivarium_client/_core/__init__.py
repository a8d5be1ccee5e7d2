"""What both clients share: requests, answers, events and retries, without a socket.

Everything here is plain functions, or coroutines over `transport.Transport`. It must never
import a network library, and never wait but through the transport.
"""
