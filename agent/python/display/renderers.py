"""Renders objects of libraries better than their own methods do.

Knows classes by name, so that it imports none of these libraries.
"""

from budget import call_timed
from classes import module_of, mro_of, qualname_of
from guard import load

# A page holds the data of its plot a second time.
HTML_MAX_CHARS = 1 << 20


def renderer(kind):
    """The function that renders a known class to data by MIME type; None for other classes."""
    for base in mro_of(kind):
        module = module_of(base)
        if type(module) is str:
            found = RENDERERS.get((module.partition(".")[0], qualname_of(base)))
            if found is not None:
                return found
    return None


def figure(value):
    """matplotlib's, which renders itself only in a notebook."""
    import figures

    return {"image/png": figures.to_png(value)}


def animation(value):
    """matplotlib's: shows its frames one by one."""
    import animations

    animations.play(value)
    return {}


def image(value):
    """PIL's: old versions render nothing, new ones nothing in modes that PNG does not have."""
    return {"image/png": call_timed(png, value)}


def png(value):
    buffer = load("io").BytesIO()
    try:
        value.save(buffer, "PNG")
    except (OSError, ValueError):
        value.convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


def plotly(value):
    """plotly's: its own method needs a configured renderer or a browser."""
    bundle = {"application/vnd.plotly.v1+json": call_timed(value.to_json).encode()}
    if len(bundle["application/vnd.plotly.v1+json"]) <= HTML_MAX_CHARS:
        bundle["text/html"] = call_timed(plotly_page, value)
    return bundle


def plotly_page(value):
    return value.to_html(include_plotlyjs="cdn", full_html=False)


def altair(value):
    """Altair's: its own method returns a page, but not the plot itself."""
    chart = call_timed(value.to_dict)
    # .../schema/vega-lite/v5.20.1.json
    version = chart["$schema"].rpartition("/")[2].partition(".")[0]
    bundle = call_timed(value._repr_mimebundle_)
    bundle = bundle[0] if type(bundle) is tuple else bundle
    return {"application/vnd.vegalite.%s+json" % version: chart, **bundle}


RENDERERS = {
    ("matplotlib", "Figure"): figure,
    ("matplotlib", "Animation"): animation,
    ("PIL", "Image"): image,
    ("plotly", "BaseFigure"): plotly,
    ("altair", "TopLevelMixin"): altair,
}
