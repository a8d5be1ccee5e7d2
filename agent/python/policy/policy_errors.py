"""The exceptions of policies. Tenant code finds them in the module `vivarium`."""


class ImportNotAllowed(ModuleNotFoundError):
    """Tenant code may not import this."""

    __module__ = "vivarium"


class WorkLimitExceeded(BaseException):
    """An execution has used up its `max_work`."""

    __module__ = "vivarium"
    # Of the execution.
    limit = 0

    def __str__(self):
        return "max_work of %d ticks is used up" % self.limit


def populate(module):
    """Gives them to the module `vivarium`. What the client of that name has of its own stays."""
    for error in (ImportNotAllowed, WorkLimitExceeded):
        vars(module).setdefault(error.__name__, error)
