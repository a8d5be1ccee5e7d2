# A script written and run by magics.
# expect stdout: ran with ['x']
# expect result: 5
# expect file: task.py
open("task.py", "w").write("import sys\nprint('ran with', sys.argv[1:])\nanswer = 5\n")
%run task.py x
answer
