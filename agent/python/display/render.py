"""Renders values: their representations, as MIME bundles by IPython's conventions.

A representation comes from a method with a name of IPython's (`_repr_html_` and so on), found in
the value's class or its own attributes, but never by `__getattr__`, since some objects answer to
any name. Classes have none: the methods are for their instances. A method that raises, or returns
nothing or a value of the wrong kind, costs only its own representation. budget.py limits the time.
A representation that exceeds what the execution has left is dropped, with a note on standard
error.
"""

import budget
import report
import wire
from abridge import abridged_repr
from budget import RenderingTimeout, call_timed
from classes import dict_offset_of, module_of, mro_of, namespace_of, type_name
from guard import load
from publisher import PLAIN, note_too_large
from streams import write_note

METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("application/pdf", "_repr_pdf_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
METHOD_NAMES = {name for _, name in METHODS} | {"_ipython_display_", "_repr_mimebundle_"}
# Libraries that renderers.py has renderers for.
LIBRARIES = {"PIL", "altair", "matplotlib", "plotly"}
# Types that are not text, in addition to images, sound and video.
BINARY = {"application/octet-stream", "application/pdf", "application/zip"}

REPRESENTATIONS_MAX = 60
MIME_TYPE_MAX_CHARS = 256


def of_value(value):
    """The repr of a value, and its other representations as pairs of MIME type and bytes."""
    text, bundle = budget.with_time_limit(text_and_bundle, value, None, None)
    if not bundle:
        return text, ()
    bytes_left = min(wire.state.bytes_left, wire.RESULT_MAX_BYTES) - wire.state.max_text_bytes
    return text, fitting(bytes_left, bundle, value)


def of_display(value, include=None, exclude=None):
    """The representations of an object; None if it displayed itself."""
    text, bundle = budget.with_time_limit(text_and_bundle, value, include, exclude)
    if bundle is None:
        return None
    bundle = {PLAIN: wire.repr_string(text)[4:], **bundle}
    if include:
        bundle = {name: data for name, data in bundle.items() if name in include}
    if exclude:
        bundle = {name: data for name, data in bundle.items() if name not in exclude}
    return fitting(wire.state.bytes_left, bundle, value)


def text_and_bundle(value, include, exclude):
    """An object's repr, and its other representations by MIME type; None if it displayed itself."""
    kind = type(value)
    methods = find_methods(kind, value)
    renderer = find_renderer(kind)
    if "_ipython_display_" in methods and renderer is None:
        try:
            call_timed(call_timed(getattr, value, "_ipython_display_"))
            return text_of(value), None
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass  # It is rendered like any other object.
    text = text_of(value)
    bundle: dict = {}
    if not methods and renderer is None:
        return text, bundle
    try:
        for mime_type, data in call_methods(value, methods, renderer, include, exclude):
            if isinstance(mime_type, str) and len(bundle) < REPRESENTATIONS_MAX:
                name = str.__str__(mime_type)
                encoded = encode_or_none(name, data)
                if encoded is not None:
                    bundle[name] = encoded
    except RenderingTimeout:
        what = type_name(kind)
        write_note(
            "rendering a %s object took over %g s: forms are missing" % (what, budget.SECONDS)
        )
    return text, bundle


def text_of(value):
    """A value's abridged repr, or a text in its place."""
    try:
        return call_timed(abridged_repr, value)
    except KeyboardInterrupt:
        raise
    except RenderingTimeout:
        what = type_name(type(value))
        return "<unrepresentable %s object: repr took over %g s>" % (what, budget.SECONDS)
    except BaseException as error:
        return report.unrepresentable(value, error)


def find_methods(kind, value):
    """The names of the methods of IPython's conventions that a value has."""
    methods: set = set()
    if issubclass(kind, type):
        return methods
    for base in mro_of(kind):
        methods |= METHOD_NAMES & namespace_of(base).keys()
    if dict_offset_of(kind):
        try:
            own = call_timed(object.__getattribute__, value, "__dict__")
            methods |= METHOD_NAMES & own.keys() if type(own) is dict else methods
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass
    return methods


def find_renderer(kind):
    """The renderer for a class of a known library, or one derived from it; else None."""
    for base in mro_of(kind):
        module = module_of(base)
        if type(module) is str and module.partition(".")[0] in LIBRARIES:
            import renderers

            return renderers.renderer(kind)
    return None


def call_methods(value, methods, renderer, include, exclude):
    """The results of the value's methods, each MIME type once."""
    if renderer is not None:
        try:
            bundle = renderer(value)
        except (KeyboardInterrupt, RenderingTimeout):
            raise
        except BaseException as error:
            what, why = type_name(type(value)), type_name(type(error))
            write_note(
                "a %s object could not be drawn: %s: %s" % (what, why, report.message_of(error)[0])
            )
            return
        yield from bundle.items()
        return
    given = set()
    if "_repr_mimebundle_" in methods:
        several = call_repr(value, "_repr_mimebundle_", include=include, exclude=exclude)
        for mime_type, data in several.items() if type(several) is dict else ():
            given.add(mime_type)
            yield mime_type, data
    for mime_type, name in METHODS:
        if name in methods and mime_type not in given:
            yield mime_type, call_repr(value, name)


def call_repr(value, name, **options):
    """The result of a method, without metadata; None if it raises."""
    try:
        result = call_timed(call_method, value, name, options)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return None
    return result[0] if type(result) is tuple and len(result) == 2 else result


def call_method(value, name, options):
    method = getattr(value, name)
    return method(**options) if callable(method) else None


def encode_or_none(mime_type, data):
    """The bytes of a representation; None if they do not fit its MIME type."""
    if not 0 < len(mime_type) <= MIME_TYPE_MAX_CHARS or not mime_type.isascii():
        return None
    try:
        return call_timed(encode, mime_type, data)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return None


def encode(mime_type, data):
    binary = mime_type in BINARY or mime_type.partition("/")[0] in ("image", "audio", "video")
    binary = binary and not mime_type.endswith("+xml")
    if isinstance(data, (bytes, bytearray, memoryview)):
        data = bytes(data)
        if not binary:
            data.decode()  # Text must be UTF-8.
        return data
    if mime_type.endswith(("/json", "+json")) and not isinstance(data, str):
        # Not values that JSON does not have (NaN): clients could not read them.
        return load("json").dumps(data, allow_nan=False).encode()
    if not isinstance(data, str):
        return None
    if binary:
        # By the conventions, text in place of bytes is base64.
        return load("base64").b64decode("".join(data.split()), validate=True)
    return data.encode("utf-8", "backslashreplace")


def fitting(bytes_left, bundle, value):
    """The representations that fit into `bytes_left`, in order, as pairs."""
    representations = []
    for mime_type, data in bundle.items():
        size = wire.size_of([(mime_type, data)])
        if size <= bytes_left:
            bytes_left -= size
            representations.append((mime_type, data))
        else:
            note_too_large("the %s of a %s object" % (mime_type, type_name(type(value))), len(data))
    return representations
