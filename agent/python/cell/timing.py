"""`%time` and `%timeit`."""

from context import UsageError, run_body
from guard import load, main_module, monotonic, process_time

# Each of the runs of `%timeit` takes at least this long.
LEAST_SECONDS = 0.2
RUNS = 7


def time_line(line):
    return time_body(line, 0)


def time_cell(line, body):
    return time_body(line + "\n" + body if line else body, 0 if line else 1)


def time_body(source, lines_before):
    """Runs code, and prints how long it took also if it raises."""
    wall, cpu = monotonic(), process_time()
    try:
        return run_body(source, lines_before)
    finally:
        wall, cpu = monotonic() - wall, process_time() - cpu
        print("CPU times: total: %s\nWall time: %s" % (in_units(cpu), in_units(wall)))


class TimeitResult:
    """What `%timeit -o` returns; all times are in seconds for one loop."""

    def __init__(self, loops, times):
        self.loops, self.repeat, self.timings = loops, len(times), times
        self.all_runs = [time * loops for time in times]
        self.best, self.worst = min(times), max(times)
        self.average = sum(times) / len(times)
        self.stdev = (sum((time - self.average) ** 2 for time in times) / len(times)) ** 0.5

    def __str__(self):
        return "%s ± %s per loop (mean ± std. dev. of %d run%s, %s loop%s each)" % (
            in_units(self.average),
            in_units(self.stdev),
            self.repeat,
            "" if self.repeat == 1 else "s",
            format(self.loops, ","),
            "" if self.loops == 1 else "s",
        )

    def __repr__(self):
        return "<TimeitResult : %s>" % self


def timeit_line(line):
    options, statement = timeit_options(line)
    return timeit(options, statement, "pass")


def timeit_cell(line, body):
    options, setup = timeit_options(line)
    return timeit(options, body, setup or "pass")


def timeit_options(line):
    """Options and code of `[-n LOOPS] [-r RUNS] [-o] [-q] code`."""
    options, words = {"n": 0, "r": RUNS, "o": False, "q": False}, line
    while words.startswith("-"):
        flag, rest = words[1:2], words[2:].lstrip()
        if flag in ("n", "r"):
            digits, _, rest = rest.partition(" ")
            if not digits.isdecimal() or not int(digits):
                raise UsageError("%%timeit -%s needs a number above 0" % flag)
            options[flag] = int(digits)
        elif flag in ("o", "q"):
            options[flag] = True
        elif flag not in ("c", "p", "t"):
            raise UsageError("%%timeit does not know the option -%s" % flag)
        words = rest.lstrip()
    return options, words


def timeit(options, statement, setup):
    timer = load("timeit").Timer(statement, setup, globals=vars(main_module))
    loops = options["n"]
    while not loops:
        loops = next(
            loops
            for loops in (10**power for power in range(10))
            if timer.timeit(loops) >= LEAST_SECONDS or loops == 10**9
        )
    times = [time / loops for time in timer.repeat(options["r"], loops)]
    result = TimeitResult(loops, times)
    if not options["q"]:
        print(result)
    return result if options["o"] else None


def in_units(seconds):
    """A duration with three significant digits."""
    if seconds >= 60:
        minutes, rest = divmod(seconds, 60)
        return "%d min %d s" % (minutes, rest)
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        digits = "%.3g" % (seconds * scale)
        # As it is shown: 999.7 ns are 1 µs, and not 1e+03 ns.
        if float(digits) >= 1:
            return "%s %s" % (digits, unit)
    return "%.3g ns" % (seconds * 1e9)
