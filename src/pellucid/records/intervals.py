"""How far the interval of a mean reaches, without NumPy, so that pictures can be drawn from records alone."""

import math


def student_factor(freedom: int) -> float:
    """How many standard errors a 95 % interval reaches to either side: the quantile of Student's t.

    Fisher's expansion in 1 / freedom (Abramowitz and Stegun 26.7.5), which is right to 1 in 400 from 3 degrees on; of
    1 and 2 degrees, as two and three trainings have, there are closed forms.

    >>> [round(student_factor(freedom), 2) for freedom in (1, 2, 4, 1000)]
    [12.71, 4.3, 2.78, 1.96]
    """
    if freedom == 1:
        return math.tan(0.475 * math.pi)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, one = 1.959964, 1 / freedom
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term * one**power for power, term in enumerate(terms))
