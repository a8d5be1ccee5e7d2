"""Libraries whose objects have better forms than their own methods give, or none.

Recognised by the names of their classes, so that no library is imported for it.
"""

from budget import call
from classes import module_of, mro_of, qualname_of
from guard import load

# A page with a plot holds its data once more.
HTML_MAX_CHARS = 1 << 20


def renderer(kind):
    """The function that gives a known class's forms, MIME type -> data; None for others."""
    for base in mro_of(kind):
        module = module_of(base)
        if type(module) is str:
            found = RENDERERS.get((module.partition(".")[0], qualname_of(base)))
            if found is not None:
                return found
    return None


def figure(value):
    """matplotlib's, which has no form of its own outside of a notebook."""
    import figures

    return {"image/png": figures.picture(value)}


def animation(value):
    """matplotlib's: its frames are shown one by one."""
    import animations

    animations.play(value)
    return {}


def image(value):
    """PIL's: old ones have no forms, and new ones none in modes that PNG has not."""
    return {"image/png": call(png, value)}


def png(value):
    buffer = load("io").BytesIO()
    try:
        value.save(buffer, "PNG")
    except (OSError, ValueError):
        value.convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


def plotly(value):
    """plotly's: its own method asks for a renderer to be configured, or for a browser."""
    forms = {"application/vnd.plotly.v1+json": call(value.to_json).encode()}
    if len(forms["application/vnd.plotly.v1+json"]) <= HTML_MAX_CHARS:
        forms["text/html"] = call(plotly_page, value)
    return forms


def plotly_page(value):
    return value.to_html(include_plotlyjs="cdn", full_html=False)


def altair(value):
    """Altair's: its own method gives a page, but not the plot as such."""
    chart = call(value.to_dict)
    # .../schema/vega-lite/v5.20.1.json
    version = chart["$schema"].rpartition("/")[2].partition(".")[0]
    bundle = call(value._repr_mimebundle_)
    bundle = bundle[0] if type(bundle) is tuple else bundle
    return {"application/vnd.vegalite.%s+json" % version: chart, **bundle}


RENDERERS = {
    ("matplotlib", "Figure"): figure,
    ("matplotlib", "Animation"): animation,
    ("PIL", "Image"): image,
    ("plotly", "BaseFigure"): plotly,
    ("altair", "TopLevelMixin"): altair,
}


