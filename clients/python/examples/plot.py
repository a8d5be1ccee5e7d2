"""A table goes up, a plot comes down. Needs matplotlib in the daemon's environment."""

from __future__ import annotations

import sys
from pathlib import Path

from vivarium_client import Client

TABLE = "month,units\n1,3\n2,5\n3,4\n4,8\n"

CODE = """
import csv
import matplotlib.pyplot as plt

with open("sales.csv") as file:
    rows = list(csv.DictReader(file))
plt.bar([row["month"] for row in rows], [int(row["units"]) for row in rows])
plt.title("Units by month")
plt.show()
"""


def main() -> None:
    """Saves the plot in the directory that is given, or in this one."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    with Client() as client:
        # The first plot of a session takes seconds: matplotlib looks at all fonts.
        outcome = client.run(CODE, files={"sales.csv": TABLE}, timeout=120).raise_for_status()
    for number, image in enumerate(outcome.images, 1):
        print(image.save(directory / f"plot-{number}.png"))


if __name__ == "__main__":
    main()
