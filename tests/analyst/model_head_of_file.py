# A file looked at by a command.
# expect stdout: a,b
# expect stdout: 1,2
# expect file: t.csv
open("t.csv", "w").write("a,b\n1,2\n3,4\n")
!head -2 t.csv
