# A command over two lines.
# expect stdout: one two
!echo one \
    two
