"""Replaces the `show` of libraries that would open a window: displays the object instead."""

from guard import modules, update_wrapper
from interactive import display


def on_pil(module):
    """`Image.show` starts a program with a window."""

    def show_image(self, *args, **options):
        display(self)

    module.Image.show = update_wrapper(show_image, module.Image.show)


def on_plotly(module):
    """`show`, which figures call too, starts a browser or needs a notebook."""

    def show_figure(fig, *args, **options):
        if type(fig) is dict:
            fig = modules["plotly.graph_objects"].Figure(fig)
        display(fig)

    module.show = update_wrapper(show_figure, module.show)
