# Money without rounding errors.
# expect result: Decimal('0.30')
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

assert Fraction(1, 10) + Fraction(2, 10) == Fraction(3, 10)
(Decimal("0.1") + Decimal("0.2")).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
