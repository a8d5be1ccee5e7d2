%%bash
# A shell script that fails is an error with its code.
# expect status: error
# expect exception: subprocess.CalledProcessError
# expect stdout: before
# expect traceback: exit status 3
echo before
exit 3
