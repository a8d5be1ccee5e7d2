# Counts statuses in a web server's log.
# expect result: Counter({'200': 2, '500': 1})
import re
from collections import Counter

LOG = """\
10.0.0.1 - - [01/Jan/2026:00:00:01] "GET / HTTP/1.1" 200 512
10.0.0.2 - - [01/Jan/2026:00:00:02] "GET /x HTTP/1.1" 500 0
10.0.0.1 - - [01/Jan/2026:00:00:03] "POST /y HTTP/1.1" 200 17
"""
Counter(re.findall(r'" (\d{3}) ', LOG))
