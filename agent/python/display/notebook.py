"""Stands in for IPython, for code that was written for notebooks.

`from IPython.display import ...` works whether IPython is installed or not. If it is not, this
part fills its modules. If it is, ours replace its `display` and `clear_output`, which only print or
do nothing outside of a notebook, and its `get_ipython`, which returns None there.

The classes are in notebook_media.py and notebook_text.py.
"""

from guard import builtins, interruptible
from interactive import clear_output, display, update_display

# matplotlib asks older ones for more modules.
VERSION = (9, 0, 0)


def publish_display_data(data, metadata=None, *, transient=None, **options):
    return display(data, raw=True, metadata=metadata, transient=transient, **options)


def set_matplotlib_formats(*formats, **options):
    pass


def display_function(mime_type):
    """One of `display_html`, `display_png` and so on, each for one MIME type."""

    def show_form(*objects, raw=False, metadata=None):
        shown = [{mime_type: data} for data in objects] if raw else objects
        return display(*shown, raw=raw, include=["text/plain", mime_type])

    return interruptible(show_form)


DISPLAY_FUNCTIONS = {
    "display_pretty": "text/plain",
    "display_html": "text/html",
    "display_markdown": "text/markdown",
    "display_svg": "image/svg+xml",
    "display_png": "image/png",
    "display_jpeg": "image/jpeg",
    "display_latex": "text/latex",
    "display_json": "application/json",
    "display_javascript": "application/javascript",
    "display_pdf": "application/pdf",
}


def replacements():
    """The functions that replace those of an installed IPython."""
    import show

    return {
        "display": display,
        "update_display": update_display,
        "clear_output": clear_output,
        "publish_display_data": interruptible(publish_display_data),
        "DisplayHandle": show.DisplayHandle,
        "get_ipython": vars(builtins)["get_ipython"],
    }


def on_ipython(module):
    """Replaces the functions that a module of the installed IPython has."""
    for name, function in replacements().items():
        if name in vars(module):
            setattr(module, name, function)


def populate(module):
    """Fills a module that stands in for one of IPython's."""
    names = vars(module)
    if module.__name__ == "IPython":
        names["get_ipython"] = vars(builtins)["get_ipython"]
        names["version_info"], names["__version__"] = VERSION, "%d.%d.%d" % VERSION
        # As with the real one, `import IPython` is enough for IPython.display.
        names["display"] = __import__("IPython.display").display
    elif module.__name__ == "IPython.core.getipython":
        names["get_ipython"] = vars(builtins)["get_ipython"]
    elif module.__name__ == "IPython.core.pylabtools":
        names["backend2gui"] = {}  # Older versions of matplotlib ask for it.
    elif module.__name__ != "IPython.core":
        import notebook_media
        import notebook_text

        offered = {**vars(notebook_text), **vars(notebook_media)}
        classes = {name: it for name, it in offered.items() if isinstance(it, type)}
        names.update(replacements(), **classes)
        for name, mime_type in DISPLAY_FUNCTIONS.items():
            names[name] = display_function(mime_type)
        names["set_matplotlib_formats"] = interruptible(set_matplotlib_formats)
        names["__all__"] = [name for name in names if not name.startswith("_")]
