"""Arguments, hooks and steps of 1.x that lt has no more. :mod:`lt_compat.dialect` finds them where used."""
