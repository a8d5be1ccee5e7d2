%%writefile settings.ini
# A file written by a cell.
# expect stdout: Writing settings.ini
# expect file: settings.ini
[main]
debug = true
