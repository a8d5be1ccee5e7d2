# The exit code of a command.
# expect result: 4
!sh -c 'exit 4'
_exit_code
