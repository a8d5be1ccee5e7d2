"""IPython's classes for images, sound, video, frames and links.

A URL stays a URL unless the code asks to embed its content.
"""

from guard import load
from notebook_text import DisplayObject, ipython_class

IMAGES = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
# The first bytes of image files.
BEGINNINGS = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))


def base64_of(data):
    return load("base64").b64encode(data).decode()


def attributes(**given):
    """Attributes of an HTML element, without those that are None."""
    return "".join(' %s="%s"' % pair for pair in given.items() if pair[1] is not None)


@ipython_class
class Image(DisplayObject):
    binary = True

    def __init__(
        self,
        data=None,
        url=None,
        filename=None,
        format=None,
        embed=None,
        width=None,
        height=None,
        retina=False,
        unconfined=False,
        metadata=None,
        alt=None,
    ):
        if isinstance(data, str) and data.startswith(("http://", "https://")):
            data, url = None, data
        self.embed = embed if embed is not None else url is None
        self.width, self.height, self.alt = width, height, alt
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, str):
            raise FileNotFoundError("Image takes bytes, a file or a URL: no file %r" % self.data)
        self.format = (format or self.kind_of(self.data) or "png").lower().replace("jpg", "jpeg")

    @staticmethod
    def kind_of(data):
        for beginning, kind in BEGINNINGS:
            if data is not None and bytes(data[:4]).startswith(beginning):
                return kind
        return None

    def reload(self):
        if self.embed:
            super().reload()

    def _repr_mimebundle_(self, **options):
        if self.embed and self.data is not None:
            return {IMAGES.get(self.format, "image/" + self.format): self.data}
        size = attributes(src=self.url, width=self.width, height=self.height, alt=self.alt)
        return {"text/html": "<img%s/>" % size}


@ipython_class
class Media(DisplayObject):
    """Sound or video, as an HTML element with the data in it."""

    binary = True
    element, kind = "video", "video/mp4"

    def __init__(self, data=None, url=None, filename=None, embed=None, mimetype=None, **options):
        if isinstance(data, str) and data.startswith(("http://", "https://")):
            data, url = None, data
        self.embed = embed if embed is not None else url is None
        self.mimetype, self.options = mimetype or self.kind, options
        super().__init__(data, url, filename)

    def reload(self):
        if self.embed:
            super().reload()

    def _repr_html_(self):
        source = self.url
        if self.embed:
            data = self.data if isinstance(self.data, str) else base64_of(self.data)
            source = "data:%s;base64,%s" % (self.mimetype, data)
        size = attributes(width=self.options.get("width"), height=self.options.get("height"))
        autoplay = " autoplay" if self.options.get("autoplay") else ""
        given = (self.element, size, autoplay, source, self.element)
        return '<%s controls%s%s src="%s"></%s>' % given


@ipython_class
class Video(Media):
    pass


@ipython_class
class Audio(Media):
    element, kind = "audio", "audio/wav"

    def __init__(self, data=None, filename=None, url=None, embed=None, rate=None, **options):
        if rate is not None and data is not None and not isinstance(data, (bytes, str)):
            data = self.wave(data, rate, options.pop("normalize", True))
        super().__init__(data, url, filename, embed, **options)

    @staticmethod
    def wave(samples, rate, normalize):
        """A 16-bit WAV file of samples: of one channel, or one row per channel."""
        rows = [list(row) for row in samples] if hasattr(samples[0], "__len__") else [list(samples)]
        loudest = max((abs(sample) for row in rows for sample in row), default=0)
        scale = 32767 / (loudest if normalize and loudest else 1)
        flat = [max(-32768, min(32767, int(one * scale))) for many in zip(*rows) for one in many]
        buffer = load("io").BytesIO()
        with load("wave").open(buffer, "wb") as file:
            file.setnchannels(len(rows))
            file.setsampwidth(2)
            file.setframerate(int(rate))
            file.writeframes(load("struct").pack("<%dh" % len(flat), *flat))
        return buffer.getvalue()


@ipython_class
class IFrame(DisplayObject):
    def __init__(self, src, width, height, extras=(), **parameters):
        query = load("urllib.parse").urlencode(parameters) if parameters else ""
        self.src, self.size = src + ("?" + query if query else ""), (width, height)
        self.extras = " ".join(extras)

    def _repr_html_(self):
        given = attributes(width=self.size[0], height=self.size[1], src=self.src)
        return '<iframe%s frameborder="0" allowfullscreen %s></iframe>' % (given, self.extras)


@ipython_class
class YouTubeVideo(IFrame):
    def __init__(self, id, width=400, height=300, **options):
        super().__init__("https://www.youtube.com/embed/" + id, width, height, **options)


@ipython_class
class FileLink(DisplayObject):
    def __init__(self, path, url_prefix="", **options):
        self.path, self.url_prefix = str(path), url_prefix

    def __repr__(self):
        return self.path

    def _repr_html_(self):
        escape = load("html").escape
        target, name = escape(self.url_prefix + self.path), escape(self.path)
        return "<a href='%s' target='_blank'>%s</a>" % (target, name)
