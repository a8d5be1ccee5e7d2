# A measurement.
# expect stdout: per loop (mean ± std. dev. of 3 runs, 10 loops each)
data = list(range(1000))
%timeit -n 10 -r 3 sorted(data)
