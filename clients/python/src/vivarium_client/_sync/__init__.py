"""The blocking client: signatures, and a transport that blocks. No logic of its own."""
