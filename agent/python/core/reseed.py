"""Seeds the random generators that are global to a process: after a fork, and after a resume."""

from guard import Any, modules, posix

# The state of a Mersenne Twister: 624 words, none of which is used yet.
MT_WORDS, MT_BYTES = 624, 2496


def reseed():
    """Seeds those that Python does not seed in a fork itself, as it does `random`."""
    ssl: Any = modules.get("_ssl")
    if ssl is not None:
        # OpenSSL detects a fork by a new pid, but two pid namespaces may have the same pid.
        ssl.RAND_add(posix.urandom(48), 48.0)
    numpy: Any = modules.get("numpy")
    random: Any = modules.get("numpy.random")
    if numpy is not None and random is not None:
        # The whole state, which `seed` would take three times as long to fill from a seed.
        words = numpy.frombuffer(posix.urandom(MT_BYTES), numpy.uint32, MT_WORDS)
        try:
            random.set_state(("MT19937", words, MT_WORDS))
        except ValueError:
            random.seed()  # Another generator is set: numpy.random.set_bit_generator.
    process: Any = modules.get("multiprocessing.process")
    if process is not None:
        # By which the processes of a session know each other.
        process.current_process().authkey = posix.urandom(32)
    uuid: Any = modules.get("uuid")
    if uuid is not None:
        # libuuid keeps the clock sequence, which makes time-based ids of a process its own, out of
        # reach: without libuuid Python draws one for each id. The node is a random one, as in any
        # session without a network card (RFC 9562, 6.10).
        uuid._generate_time_safe = None
        uuid._node = int.from_bytes(posix.urandom(6), "big") | 1 << 40
