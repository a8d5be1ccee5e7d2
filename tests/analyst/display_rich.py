# What IPython's display is given.
# expect displays: 2
from IPython.display import HTML, Markdown, display

display(HTML("<b>bold</b>"), Markdown("**bold**"))
