"""The working directory and the variables that one execution has for itself."""

from guard import load, posix, workdir


class Surroundings:
    """Where an execution runs. Leaving it puts back what was there before."""

    def __init__(self, cwd, variables):
        self.cwd, self.variables = cwd, variables
        self.environ = load("os").environ
        self.before = [(name, self.environ.get(name)) for name, _ in variables]
        self.came_from = None

    def __enter__(self):
        if self.cwd:
            came_from = posix.open(".", posix.O_PATH | posix.O_CLOEXEC)
            # Not relative to the working directory, which user code may have changed.
            posix.chdir("%s/%s" % (workdir(), self.cwd))
            self.came_from = came_from
        self.environ.update(self.variables)

    def __exit__(self, *_):
        for name, value in self.before:
            if value is None:
                self.environ.pop(name, None)
            else:
                self.environ[name] = value
        if self.came_from is not None:
            posix.fchdir(self.came_from)
            posix.close(self.came_from)
