"""Whether LaTeX can be typeset in a notebook's page without giving its author the page.

MathJax makes links to `javascript:` of `\\href`, attributes of `\\style` and `\\class`, loads
extensions by `\\require`, and knows macros that build such commands
(https://docs.mathjax.org/en/latest/options/safe.html); notebooks use it without its safe mode. So
only commands of this list may be there, which typeset mathematics and nothing else: those of sympy
and more.
"""

from __future__ import annotations

import re
from typing import Optional

_COMMANDS = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi
varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi
Pi Sigma Upsilon Phi Psi Omega
arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd inf ker lg lim liminf limsup
ln log max min mod bmod pmod Pr sec sin sinh sup tan tanh operatorname
frac dfrac tfrac sqrt binom tbinom dbinom over overline underline overset underset stackrel
int iint iiint oint sum prod coprod bigcap bigcup bigoplus bigotimes bigvee bigwedge partial
nabla infty limits nolimits
hat widehat bar tilde widetilde vec dot ddot check acute grave breve prime
cdot cdots dots ldots vdots ddots times div pm mp ast star circ bullet oplus ominus otimes odot
cap cup wedge vee setminus neg lnot land lor
eq ne neq lt gt le leq ge geq ll gg equiv sim simeq approx cong propto subset supset subseteq
supseteq in notin ni perp parallel mid nmid vdash models
to gets mapsto leftarrow rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow
longrightarrow longmapsto uparrow downarrow iff implies
forall exists nexists emptyset varnothing therefore because angle degree hbar ell Re Im aleph
left right middle big Big bigg Bigg bigl bigr Bigl Bigr langle rangle lfloor rfloor lceil rceil
lvert rvert lVert rVert vert Vert lbrace rbrace lbrack rbrack
text textrm textit textbf mathrm mathbf mathit mathsf mathtt mathcal mathbb mathfrak mathscr
boldsymbol substack displaystyle textstyle quad qquad begin end hline
"""

_ENVIRONMENTS = """
matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array cases aligned align align*
equation equation* gather gather* split
"""

_KNOWN_COMMANDS = frozenset(_COMMANDS.split())
_KNOWN_ENVIRONMENTS = frozenset(_ENVIRONMENTS.split())

# A command is letters, or one other character: a space, a line's end, punctuation.
_COMMAND = re.compile(r"\\([A-Za-z]+|.|\Z)", re.DOTALL)
_PUNCTUATION = frozenset(" ,;:!{}|\\_%&#$")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)(?![A-Za-z])(?:\{([a-zA-Z]+\*?)\})?")

# One formula and nothing around it: a front end may take the rest for Markdown or HTML.
_INNER = r"(?:[^$\\]|\\.)+"
_FORMULA = re.compile(
    rf"\$\${_INNER}\$\$|\${_INNER}\$|\\begin\{{{_INNER}\\end\{{[a-zA-Z]+\*?\}}", re.DOTALL
)

_MOST_CHARS = 20_000


def typeset(source: str) -> Optional[str]:
    """Returns LaTeX that a page may typeset, or None."""
    formula = source.strip()
    if len(formula) > _MOST_CHARS or not _FORMULA.fullmatch(formula):
        return None
    if not all(map(_is_harmless, _COMMAND.findall(formula))):
        return None
    if not all(name in _KNOWN_ENVIRONMENTS for name in _ENVIRONMENT.findall(formula)):
        return None
    # `<` and `>` are operators, never markup; a backquote would be code in Markdown.
    if "`" in formula or "](" in formula or not formula.replace("\n", "").isprintable():
        return None
    return formula.replace("<", r"\lt ").replace(">", r"\gt ")


def _is_harmless(command: str) -> bool:
    return command in _KNOWN_COMMANDS or command in _PUNCTUATION
