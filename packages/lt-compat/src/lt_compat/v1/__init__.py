"""What 1.x understood and lt does not: arguments, hooks, steps. :mod:`lt_compat.dialect` finds them where used."""
