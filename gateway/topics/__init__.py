"""Topic settings as code: a file says what topics there are, a plan what is missing, and applying it does only that."""
