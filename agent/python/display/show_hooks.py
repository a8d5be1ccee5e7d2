"""`show` of libraries that would start a program with a window: it displays the object."""

from guard import imitate, modules
from interactive import display


def on_pil(module):
    """`Image.show` starts a program with a window."""

    def show_image(self, *args, **options):
        display(self)

    module.Image.show = imitate(show_image, module.Image.show)


def on_plotly(module):
    """`show`, which figures call as well, starts a browser or asks for a notebook."""

    def show_figure(fig, *args, **options):
        if type(fig) is dict:
            fig = modules["plotly.graph_objects"].Figure(fig)
        display(fig)

    module.show = imitate(show_figure, module.show)
