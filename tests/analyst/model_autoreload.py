# The lines that many notebooks begin with.
# expect result: 3
%load_ext autoreload
%autoreload 2
%matplotlib inline
%config InlineBackend.figure_format = 'retina'
import math
math.floor(math.pi)
