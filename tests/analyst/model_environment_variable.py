# An environment variable set by a magic reaches commands.
# expect stdout: env: MODE=test
# expect stdout: test
%env MODE=test
!echo $MODE
