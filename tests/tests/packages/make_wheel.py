"""Writes a wheel: `make_wheel.py DIRECTORY NAME VERSION [REQUIREMENT…]`. Prints its path."""

import pathlib
import sys
import zipfile

directory, name, version, *requirements = sys.argv[1:]
module = name.replace("-", "_")
info = "%s-%s.dist-info/" % (module, version)
path = pathlib.Path(directory, "%s-%s-py3-none-any.whl" % (module, version))
metadata = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)
metadata += "".join("Requires-Dist: %s\n" % requirement for requirement in requirements)
with zipfile.ZipFile(path, "w") as wheel:
    source = "VERSION = %r\n\n\ndef main():\n    print(%r, VERSION)\n" % (version, name)
    # Of another length: Python's bytecode cache goes by the source's time, in seconds, and length.
    wheel.writestr(module + ".py", source + "#" * int(version.partition(".")[0]))
    wheel.writestr(info + "METADATA", metadata)
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "entry_points.txt", "[console_scripts]\n%s = %s:main\n" % (name, module))
    wheel.writestr(info + "RECORD", "")
print(path)
