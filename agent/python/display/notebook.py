"""What stands in for IPython: what code written for notebooks imports, without IPython.

`from IPython.display import ...` and its kin work whether IPython is installed or not: without it,
its modules are made here; with it, its `display` and `clear_output`, which outside of a notebook
print and do nothing, become ours. `get_ipython()` is None, as IPython's own is outside of a shell,
and is not a builtin: libraries take that for the sign of a notebook.

The classes are in notebook_media.py and notebook_text.py.
"""

from guard import interruptible
from interactive import clear_output, display, update_display

VERSION = (8, 0, 0)


def publish_display_data(data, metadata=None, *, transient=None, **options):
    return display(data, raw=True, metadata=metadata, transient=transient, **options)


def get_ipython():
    return None


def set_matplotlib_formats(*formats, **options):
    pass


def shower(form):
    """One of `display_html`, `display_png` and so on, each for one form."""

    def show_form(*objects, raw=False, metadata=None):
        if raw:
            objects = [{form: data} for data in objects]
        return display(*objects, raw=raw, include=["text/plain", form])

    return interruptible(show_form)


SHOWERS = {
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


def ours():
    """The functions that take IPython's place where it is installed."""
    import show

    return {
        "display": display,
        "update_display": update_display,
        "clear_output": clear_output,
        "publish_display_data": interruptible(publish_display_data),
        "DisplayHandle": show.DisplayHandle,
    }


def on_ipython(module):
    """The real one: the functions among these that this module has."""
    for name, function in ours().items():
        if name in vars(module):
            setattr(module, name, function)


def fill(module):
    """Gives a module that stands in for one of IPython's what it needs."""
    names = vars(module)
    if module.__name__ == "IPython":
        names["get_ipython"] = interruptible(get_ipython)
        names["version_info"], names["__version__"] = VERSION, "%d.%d.%d" % VERSION
        # As in the real one, `import IPython` is enough for IPython.display.
        names["display"] = __import__("IPython.display").display
    elif module.__name__ != "IPython.core":
        import notebook_media
        import notebook_text

        offered = {**vars(notebook_text), **vars(notebook_media)}
        classes = {name: it for name, it in offered.items() if isinstance(it, type)}
        names.update(ours(), **classes, **{name: shower(form) for name, form in SHOWERS.items()})
        names["set_matplotlib_formats"] = interruptible(set_matplotlib_formats)
        names["__all__"] = [name for name in names if not name.startswith("_")]
