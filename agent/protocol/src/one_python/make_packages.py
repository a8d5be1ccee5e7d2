"""Makes the virtual environment of a session's packages: `make_packages.py DIRECTORY`.

Run by the session's interpreter, inside the session. What the interpreter can import can be
imported there too, also if the interpreter is that of another virtual environment, whose packages
`venv` with --system-site-packages leaves out.
"""

import os
import shutil
import site
import sys


def main(root):
    own = os.path.realpath(sys.executable)
    base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    name = "python%d.%d" % sys.version_info[:2]
    # Under another name until it is whole: two programs may make it at the same time.
    new = "%s.%d" % (root, os.getpid())
    packages = os.path.join(new, "lib", name, "site-packages")
    programs = os.path.join(new, "bin")
    os.makedirs(packages)
    os.mkdir(programs)
    with open(os.path.join(packages, "_environment.pth"), "w") as file:
        for directory in site.getsitepackages():
            if os.path.isdir(directory):
                file.write("import site; site.addsitedir(%r)\n" % directory)
        # It led here already. pip would start another Python for it.
        file.write("import os; os.environ.pop('PIP_PYTHON', None)\n")
    with open(os.path.join(new, "pyvenv.cfg"), "w") as file:
        file.write("home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(base))
        file.write("version = %d.%d.%d\n" % sys.version_info[:3])
    for link, target in (("python", own), ("python3", "python"), (name, "python")):
        os.symlink(target, os.path.join(programs, link))
    try:
        os.rename(new, root)
    except OSError:
        shutil.rmtree(new)
        if not os.path.exists(os.path.join(root, "pyvenv.cfg")):
            raise


try:
    main(sys.argv[1])
except OSError as error:
    sys.exit("vivarium: no directory for packages can be made: %s" % error)
