# What a model runs first: where am I, and what is installed?
# expect stdout: Python 3
# expect stdout: pandas
# expect stdout: True
import os, sys
print("Python", sys.version.split()[0])
import pandas as pd, numpy as np, matplotlib
print("pandas", pd.__version__, "numpy", np.__version__)
print(os.access(os.getcwd(), os.W_OK))
