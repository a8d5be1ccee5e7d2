# A download without a network fails with an exception that is caught.
# expect stdout: failed: URLError
import urllib.request
try:
    urllib.request.urlopen("https://example.com", timeout=5)
except Exception as error:
    print("failed:", type(error).__name__)
