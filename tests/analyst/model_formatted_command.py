# Variables in a command, in braces and after a dollar.
# expect stdout: report 2026
# expect stdout: REPORT-3
name, year = "report", 2026
!echo {name} $year
!echo {name.upper()}-{1 + len(name) // 3}
