"""Modules that one execution can import, with what the client has given it. They cannot be assigned
to.
"""

from guard import Any, load, modules, sys

ModuleType: Any = type(sys)


class HostModule(ModuleType):
    def __setattr__(self, name, value):
        raise AttributeError("module %r is read-only" % self.__name__)

    def __delattr__(self, name):
        raise AttributeError("module %r is read-only" % self.__name__)


class State:
    # By name.
    added: dict = {}


state = State()


def begin(given):
    loads = load("json").loads
    standard = {*sys.builtin_module_names, *getattr(sys, "stdlib_module_names", ())}
    for declared in given:
        name = declared["name"]
        if name in standard or name in modules:
            raise ValueError("modules: a module %r is there already: choose another name" % name)
        module: Any = HostModule(name)
        # What every module has is not the client's to say.
        vars(module).update({**loads(declared["content"]), **vars(module)})
        state.added[name] = module
        modules[name] = module


def end():
    for name, module in list(state.added.items()):
        if modules.get(name) is module:
            del modules[name]
        state.added.pop(name, None)
