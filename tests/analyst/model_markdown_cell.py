%%markdown
# expect displays: 1
A *cell* of Markdown.
