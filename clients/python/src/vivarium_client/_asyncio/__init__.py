"""The asyncio client: signatures, and a transport that awaits. No logic of its own."""
