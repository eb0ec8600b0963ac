"""What lies beside these tests and is no part of them."""

collect_ignore = ["plugins_of_0_1"]  # tests of packages that only `nox -s old-plugins` installs
