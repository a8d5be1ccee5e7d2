# The session's interpreter as a command.
# expect stdout: from a child
!python3 -c "print('from a child')"
