# A pipeline with a dollar and braces of awk's own.
# expect stdout: 3
# expect file: n.txt
open("n.txt", "w").write("1 a\n2 b\n")
!awk '{ total += $1 } END { print total }' n.txt
