"""`vivarium.tools`: functions of the client's, for code to call.

`tools.NAME(…)` waits for the answer; `await tools.aio.NAME(…)` lets the event loop go on. Arguments
and results are JSON. What does not work is an exception of `vivarium.ToolCallError`.
"""

import tool_channel
from guard import Any, call_for_user, interruptible, load, main_module
from tool_channel import ERROR, REFUSED, RESULT, TIMEOUT

MODULE = "vivarium"


class ToolCallError(Exception):
    """A call of a tool has no result."""

    __module__ = MODULE


class ToolError(ToolCallError):
    """The client's function failed. `message` and `data` are what the client says about it."""

    __module__ = MODULE

    def __init__(self, message="", data=None):
        super().__init__(message)
        self.message, self.data = message, data

    def __reduce__(self):
        return type(self), (self.message, self.data)


class ToolRefused(ToolCallError):
    """The call did not reach the client: its arguments are not what the tool takes, or are too
    large, or there were too many calls."""

    __module__ = MODULE


class ToolTimeout(ToolCallError):
    """The client did not answer in time."""

    __module__ = MODULE


class ToolUnavailable(ToolCallError):
    """There is nothing to be called: the execution has no tools, or is over."""

    __module__ = MODULE


class UnknownTool(ToolUnavailable, AttributeError):
    """There is no tool of this name."""

    __module__ = MODULE


ERRORS = ToolCallError, ToolError, ToolRefused, ToolTimeout, ToolUnavailable, UnknownTool


def unavailable(name, why):
    return ToolUnavailable("%s: %s" % (name, why) if name else why)


def json_module() -> Any:
    json = load("json")
    if json is None:
        raise ToolUnavailable("tools need json, and another module has its name")
    return json


class Declared:
    """The tools of a channel, by their names, and what holds for all of them."""

    def __init__(self, channel):
        declaration = channel.declared()
        found = json_module().loads(declaration) if declaration is not None else {}
        self.channel = channel
        self.by_name = {tool["name"]: tool for tool in found.get("tools", ())}
        self.plain_names = found.get("plain_names", False)
        self.max_bytes = found.get("max_bytes", 0)


class State:
    declared: Any = None


state = State()


def declared(name=""):
    """What can be called now."""
    channel, why = tool_channel.current()
    if channel is None:
        raise unavailable(name, why)
    if state.declared is None or state.declared.channel is not channel:
        state.declared = Declared(channel)
    return state.declared


def encode(name, args, options):
    """The arguments of a call as JSON."""
    of = declared(name)
    tool = of.by_name.get(name)
    if tool is None:
        raise unknown(name, of)
    schema = tool["parameters"]
    schema = schema if isinstance(schema, dict) else {}
    order = list(schema.get("properties", ()))
    if args and not order:
        raise TypeError("%s() takes its arguments by name" % name)
    if len(args) > len(order):
        raise TypeError(
            "%s() takes %d positional arguments, and %d were given" % (name, len(order), len(args))
        )
    arguments = dict(zip(order, args))
    for option, value in options.items():
        if option in arguments:
            raise TypeError("%s() got two values for %r" % (name, option))
        arguments[option] = value
    # Neither NaN nor lone surrogates are JSON.
    text = json_module().dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > of.max_bytes:
        raise ToolRefused(
            "%s: its arguments have %d bytes, and %d are the most" % (name, len(text), of.max_bytes)
        )
    return of.channel, text


def unknown(name, of):
    names = ", ".join(of.by_name) or "none"
    return UnknownTool("there is no tool %r in this execution: there is %s" % (name, names))


def decode(name, answer):
    """The result of a call, or the exception that stands for it."""
    kind, text = answer
    if isinstance(text, str):
        raise unavailable(name, text)
    content = json_module().loads(text)
    if kind == RESULT:
        return content
    message = content.get("message", "")
    if kind == ERROR:
        raise ToolError(message, content.get("data"))
    raise {REFUSED: ToolRefused, TIMEOUT: ToolTimeout}.get(kind, ToolUnavailable)(
        "%s: %s" % (name, message)
    )


def call(name, args, options):
    channel, arguments = encode(name, args, options)
    # Noted by the very call: signal handlers may raise after it.
    waiters: list = []
    try:
        waiters.extend(map(channel.start, (name,), (arguments,)))
        answer = channel.wait(waiters[0])
    except BaseException:
        for waiter in waiters:
            channel.withdraw(waiter)
        raise
    return decode(name, answer)


class Reading:
    """An event loop that reads answers, as long as one of its calls waits."""

    # By event loop.
    all: dict = {}

    def __init__(self, loop, channel):
        self.loop, self.channel = loop, channel
        # Its own, to be closed when it likes.
        self.descriptor = tool_channel.posix.dup(channel.answers)
        self.count = 0
        loop.add_reader(self.descriptor, channel.read_some)

    def leave(self):
        self.count -= 1
        if self.count == 0:
            Reading.all.pop((self.loop, self.channel), None)
            try:
                self.loop.remove_reader(self.descriptor)
            except Exception:
                pass  # The loop is closed.
            tool_channel.close(self.descriptor)


def enter(loop, channel):
    reading = Reading.all.get((loop, channel))
    if reading is None:
        reading = Reading.all[loop, channel] = Reading(loop, channel)
    reading.count += 1
    return reading


class AsyncCall:
    """A call that a task awaits, as far as it has come."""

    channel: Any = None
    waiter: Any = None
    future: Any = None
    reading: Any = None

    def begin(self, name, args, options):
        """Makes it. Returns a future that is done when it is over."""
        asyncio: Any = load("asyncio")
        loop = asyncio.get_running_loop()
        self.channel, arguments = encode(name, args, options)
        self.future = loop.create_future()
        self.reading = enter(loop, self.channel)

        def notify():
            loop.call_soon_threadsafe(self.settle)

        self.waiter = self.channel.start(name, arguments, notify)
        if self.waiter.answer is not None:
            self.settle()
        return self.future

    def settle(self):
        if not self.future.done():
            self.future.set_result(None)

    def end(self, name):
        self.leave()
        return decode(name, self.waiter.answer)

    def give_up(self):
        """It was cancelled, or interrupted: nobody waits for it. May have ended before."""
        self.leave()
        if self.waiter is not None:
            self.channel.withdraw(self.waiter)

    def leave(self):
        reading, self.reading = self.reading, None
        if reading is not None:
            reading.leave()


@interruptible
async def call_async(name, args, options):
    started = AsyncCall()
    try:
        await call_for_user(started.begin, name, args, options)
        return call_for_user(started.end, name)
    except BaseException:
        call_for_user(started.give_up)
        raise


class Tool:
    """A function of the client's."""

    def __init__(self, name, is_async):
        self.__name__ = self.__qualname__ = name
        self.__module__ = MODULE
        self._is_async = is_async

    @interruptible
    def __call__(self, /, *args, **options):
        if self._is_async:
            return call_async(self.__name__, args, options)
        return call_for_user(call, self.__name__, args, options)

    def _describe(self):
        return call_for_user(document, self.__name__)

    __doc__: Any = property(_describe)

    def __repr__(self):
        return "<tool %s%s>" % ("aio." if self._is_async else "", self.__name__)

    def __reduce__(self):
        return load_tool, (self.__name__, self._is_async)


def load_tool(name, is_async):
    return Tool(name, is_async)


def document(name):
    """The docstring of a tool: its description, and its parameters."""
    try:
        tool = declared(name).by_name.get(name)
    except ToolCallError:
        return None
    if tool is None:
        return None
    schema = tool["parameters"] if isinstance(tool["parameters"], dict) else {}
    required = schema.get("required", ())
    lines = [tool["description"]] if tool["description"] else []
    properties = schema.get("properties", {})
    if properties:
        lines += [""] if lines else []
        lines.append("Parameters:")
    for parameter, schema_of_it in properties.items():
        of = schema_of_it if isinstance(schema_of_it, dict) else {}
        optional = "" if parameter in required else ", optional"
        text = "    %s (%s%s)" % (parameter, type_of(of), optional)
        about = of.get("description")
        lines.append("%s: %s" % (text, about) if about else text)
    return "\n".join(lines)


def type_of(schema):
    """What a schema allows, in words: `string or null`, `array of "a" or "b"`."""
    if not isinstance(schema, dict):
        return "any"
    kind = schema.get("type", "any")
    if "enum" in schema:
        text = " or ".join(map(json_module().dumps, schema["enum"]))
    elif "anyOf" in schema or "oneOf" in schema:
        text = " or ".join(map(type_of, schema.get("anyOf") or schema["oneOf"]))
    elif kind == "array" and "items" in schema:
        text = "array of " + type_of(schema["items"])
    else:
        text = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return text


def find(name, is_async):
    if name.startswith("_"):
        raise AttributeError(name)
    of = declared(name)
    if name not in of.by_name:
        raise unknown(name, of)
    return Tool(name, is_async)


def names():
    try:
        return list(declared().by_name)
    except ToolCallError:
        return []


class AsyncTools:
    """The same functions, to be awaited."""

    __module__ = MODULE

    @interruptible
    def __getattr__(self, name):
        return call_for_user(find, name, True)

    @interruptible
    def __dir__(self):
        return call_for_user(names)

    def __repr__(self):
        return "<vivarium.tools.aio>"


class Tools:
    """Functions that the client provides: each is an attribute."""

    __module__ = MODULE
    aio = AsyncTools()

    @interruptible
    def __getattr__(self, name):
        return call_for_user(find, name, False)

    @interruptible
    def __dir__(self):
        return call_for_user(names) + ["aio"]

    def __repr__(self):
        return "<vivarium.tools>"


TOOLS = Tools()


def populate(module):
    """Gives it to the module `vivarium`. What the client of that name has of its own stays."""
    for name, value in [("tools", TOOLS), *((error.__name__, error) for error in ERRORS)]:
        vars(module).setdefault(name, value)


def begin():
    """An execution that may call something begins."""
    tool_channel.begin()
    # The pipe has what can be called by now, or has it in a moment.
    if tool_channel.state.channel is None:
        return
    try:
        of = declared()
    except ToolUnavailable:
        return  # Code that calls nothing runs all the same.
    if of.plain_names:
        for name in of.by_name:
            vars(main_module)[name] = Tool(name, False)


def end():
    state.declared = None
    channel = tool_channel.state.channel
    tool_channel.end()
    for reading in [it for it in list(Reading.all.values()) if it.channel is channel]:
        forget(reading)


def forget(reading):
    """An event loop reads no more answers of an execution that is over."""

    def leave():
        reading.count = 1
        reading.leave()

    try:
        if reading.loop.is_running():
            reading.loop.call_soon_threadsafe(leave)
        else:
            leave()
    except Exception:
        pass  # It was closed meanwhile.
