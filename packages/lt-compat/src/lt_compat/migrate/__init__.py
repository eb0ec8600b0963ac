"""``lt migrate``: a project written for Lightning, rewritten in the words of lt."""
