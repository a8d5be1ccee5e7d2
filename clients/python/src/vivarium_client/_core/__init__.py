"""What both clients share: requests, responses, events and retries, without a socket.

Everything here is plain functions, or coroutines over `transport.Transport`. It must never
import a network library, and never wait except through the transport.
"""
