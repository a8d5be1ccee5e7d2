"""The commands of docs/operations.md: what stands in its `sh` blocks, by section.

    python3 document.py PAGE SECTION

prints those of one section.
"""

import pathlib
import sys


def sections(page):
    """The blocks under each section's title, in the order of the page."""
    found: dict = {}
    title = kind = None
    for line in pathlib.Path(page).read_text().splitlines():
        # In a list they are indented.
        if line.strip().startswith("```"):
            kind = line.strip().removeprefix("```") or "text" if kind is None else None
            if kind == "sh":
                found.setdefault(title, []).append("")
        elif kind == "sh":
            found[title][-1] += line + "\n"
        elif kind is None and line.startswith("## "):
            title = line.removeprefix("## ")
    return found


if __name__ == "__main__":
    print("\n".join(sections(sys.argv[1])[sys.argv[2]]))
