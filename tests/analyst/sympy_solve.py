# Algebra, and its LaTeX.
# expect mime: text/latex
# expect stdout: [-2, 2]
import sympy

x = sympy.symbols("x")
print(sympy.solve(x**2 - 4, x))
sympy.integrate(sympy.sin(x) / x, x)
