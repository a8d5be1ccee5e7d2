"""Values in the forms in which they can be shown: MIME bundles by IPython's conventions.

A form comes of a method with a name of IPython's (`_repr_html_` and so on), found in the class of
the value or among its own attributes, never by `__getattr__`: there are objects that answer to
any name. Classes have no forms: the methods are for their instances. A method that raises, or
gives nothing or what its form can not be, costs that form only. Time is limited by budget.py, size
by what is left to the execution: what does not fit is left out, and standard error says so.
"""

import budget
import report
import wire
from budget import RenderingTimeout, call
from classes import dict_offset_of, module_of, mro_of, namespace_of, type_name
from guard import load
from publisher import PLAIN, no_room
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
NAMES = {name for _, name in METHODS} | {"_ipython_display_", "_repr_mimebundle_"}
# Libraries whose classes renderers.py may know better.
LIBRARIES = {"PIL", "altair", "matplotlib", "plotly"}
# Not text, beside images, sound and video.
BINARY = {"application/octet-stream", "application/pdf", "application/zip"}

FORMS_MAX = 60
TYPE_MAX_CHARS = 256


def of_value(value):
    """A final expression's value: its repr, and its forms as (MIME type, bytes)."""
    text, bundle = budget.limited(text_and_bundle, value, None, None)
    if not bundle:
        return text, ()
    room = min(wire.state.room, wire.RESULT_MAX_BYTES) - wire.state.max_text_bytes
    return text, within(room, bundle, value)


def of_display(value, include=None, exclude=None):
    """The forms of an object that is displayed; None if it has displayed itself."""
    text, bundle = budget.limited(text_and_bundle, value, include, exclude)
    if bundle is None:
        return None
    bundle = {PLAIN: wire.string(text, wire.state.max_text_bytes)[4:], **bundle}
    if include:
        bundle = {name: data for name, data in bundle.items() if name in include}
    if exclude:
        bundle = {name: data for name, data in bundle.items() if name not in exclude}
    return within(wire.state.room, bundle, value)


def text_and_bundle(value, include, exclude):
    """An object's repr, and its other forms: MIME type -> bytes. None if it displays itself."""
    kind = type(value)
    found = named_methods(kind, value)
    special = specials_of(kind)
    if "_ipython_display_" in found and special is None:
        try:
            call(call(getattr, value, "_ipython_display_"))
            return text_of(value), None
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass  # Then it is shown as any other.
    text, bundle = text_of(value), {}
    if not found and special is None:
        return text, bundle
    try:
        for mime_type, data in raw_forms(value, found, special, include, exclude):
            if isinstance(mime_type, str) and len(bundle) < FORMS_MAX:
                mime_type = str.__str__(mime_type)
                data = encoded(mime_type, data)
                if data is not None:
                    bundle[mime_type] = data
    except RenderingTimeout:
        what = type_name(kind)
        write_note("rendering a %s object took over %g s: forms are missing" % (what, budget.SECONDS))
    return text, bundle


def text_of(value):
    """A value's repr, or what is said in its place."""
    try:
        return call(repr, value)
    except KeyboardInterrupt:
        raise
    except RenderingTimeout:
        what = type_name(type(value))
        return "<unrepresentable %s object: repr took over %g s>" % (what, budget.SECONDS)
    except BaseException as error:
        return report.unrepresentable(value, error)


def named_methods(kind, value):
    """Which methods of IPython's conventions there are."""
    found = set()
    if issubclass(kind, type):
        return found
    for base in mro_of(kind):
        found |= NAMES & namespace_of(base).keys()
    if dict_offset_of(kind):
        try:
            own = call(object.__getattribute__, value, "__dict__")
            found |= NAMES & own.keys() if type(own) is dict else found
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass
    return found


def specials_of(kind):
    """What renderers.py has for a library's class and those derived of it; else None."""
    for base in mro_of(kind):
        module = module_of(base)
        if type(module) is str and module.partition(".")[0] in LIBRARIES:
            import renderers

            return renderers.renderer(kind)
    return None


def raw_forms(value, found, special, include, exclude):
    """All forms that the value's methods give, as they give them, each type once."""
    if special is not None:
        try:
            bundle = special(value)
        except (KeyboardInterrupt, RenderingTimeout):
            raise
        except BaseException as error:
            what, why = type_name(type(value)), type_name(type(error))
            write_note("a %s object could not be drawn: %s: %s" % (what, why, report.message_of(error)[0]))
            return
        yield from bundle.items()
        return
    given = set()
    if "_repr_mimebundle_" in found:
        several = result_of(value, "_repr_mimebundle_", include=include, exclude=exclude)
        for mime_type, data in several.items() if type(several) is dict else ():
            given.add(mime_type)
            yield mime_type, data
    for mime_type, name in METHODS:
        if name in found and mime_type not in given:
            yield mime_type, result_of(value, name)


def result_of(value, name, **options):
    """What a method gives, without the metadata that may come with it; None if it raises."""
    try:
        result = call(call_method, value, name, options)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return None
    return result[0] if type(result) is tuple and len(result) == 2 else result


def call_method(value, name, options):
    method = getattr(value, name)
    return method(**options) if callable(method) else None


def encoded(mime_type, data):
    """A form as bytes: text as UTF-8, JSON as text, all else as it is. None if it can not be."""
    if not 0 < len(mime_type) <= TYPE_MAX_CHARS or not mime_type.isascii():
        return None
    try:
        return call(encode, mime_type, data)
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
        # What JSON has no word for (NaN) is refused, rather than sent to whom can not read it.
        return load("json").dumps(data, allow_nan=False).encode()
    if not isinstance(data, str):
        return None
    if binary:
        # By the conventions, text that stands for bytes is base64.
        return load("base64").b64decode("".join(data.split()), validate=True)
    return data.encode("utf-8", "backslashreplace")


def within(room, bundle, value):
    """The forms that fit, in their order, as pairs."""
    forms = []
    for mime_type, data in bundle.items():
        size = wire.size_of([(mime_type, data)])
        if size <= room:
            room -= size
            forms.append((mime_type, data))
        else:
            no_room("the %s of a %s object" % (mime_type, type_name(type(value))), len(data))
    return forms


