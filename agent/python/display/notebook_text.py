"""IPython's classes for text: HTML, Markdown, LaTeX, JSON and so on.

Each takes data, a URL or a file name, as IPython's do.
"""

from guard import interruptible, load


def ipython_class(kind):
    """Makes a class look like IPython's, and its methods interruptible."""
    kind.__module__ = "IPython.core.display"
    for member in vars(kind).values():
        function = getattr(member, "__func__", member)
        if hasattr(function, "__code__"):
            interruptible(function)
    return kind


@ipython_class
class DisplayObject:
    """An object with one representation: its data."""

    binary = False

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if hasattr(type(data), "__fspath__"):
            data, filename = None, str(data)
        elif isinstance(data, str) and url is None and filename is None:
            if data.startswith(("http://", "https://")):
                data, url = None, data
            elif self.is_file(data):
                data, filename = None, data
        self.data, self.url = data, url
        self.filename = None if filename is None else str(filename)
        self.metadata = metadata or {}
        self.reload()

    @staticmethod
    def is_file(text):
        os = load("os")
        try:
            return len(text) < 1024 and os.path.isfile(text)
        except (OSError, ValueError):
            return False

    def reload(self):
        """Reads the file or URL, if there is one."""
        if self.filename is not None:
            with load("io").open(self.filename, "rb") as file:
                self.data = self.decoded(file.read())
        elif self.url is not None:
            with load("urllib.request").urlopen(self.url) as response:
                self.data = self.decoded(response.read())

    def decoded(self, content):
        return content if self.binary else content.decode("utf-8", "replace")

    def __repr__(self):
        return "<IPython.core.display.%s object>" % type(self).__name__


@ipython_class
class TextDisplayObject(DisplayObject):
    pass


@ipython_class
class Pretty(TextDisplayObject):
    def __repr__(self):
        return str(self.data)


@ipython_class
class HTML(TextDisplayObject):
    def _repr_html_(self):
        return self.data

    __html__ = _repr_html_


@ipython_class
class Markdown(TextDisplayObject):
    def _repr_markdown_(self):
        return self.data


@ipython_class
class Latex(TextDisplayObject):
    def _repr_latex_(self):
        return self.data


@ipython_class
class Math(TextDisplayObject):
    def _repr_latex_(self):
        return "$\\displaystyle %s$" % self.data.strip("$")


@ipython_class
class SVG(DisplayObject):
    def _repr_svg_(self):
        return self.data.decode() if isinstance(self.data, bytes) else self.data


@ipython_class
class JSON(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, expanded=False, **metadata):
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, (str, bytes)):
            self.data = load("json").loads(self.data)

    def _repr_json_(self):
        return self.data


@ipython_class
class GeoJSON(JSON):
    def _repr_mimebundle_(self, **options):
        return {"application/geo+json": self.data}


@ipython_class
class Javascript(TextDisplayObject):
    def __init__(self, data=None, url=None, filename=None, lib=None, css=None):
        super().__init__(data, url, filename)

    def _repr_javascript_(self):
        return self.data


@ipython_class
class Code(TextDisplayObject):
    def __init__(self, data=None, url=None, filename=None, language=None):
        super().__init__(data, url, filename)
        self.language = language

    def __repr__(self):
        return self.data

    def _repr_html_(self):
        return "<pre><code>%s</code></pre>" % load("html").escape(self.data)


@ipython_class
class ProgressBar(DisplayObject):
    def __init__(self, total):
        self.total, self.progress = total, 0

    def __repr__(self):
        return "%s/%s" % (self.progress, self.total)

    def _repr_html_(self):
        return "<progress max='%s' value='%s'></progress>" % (self.total, self.progress)
