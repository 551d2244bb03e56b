"""One module for each change of the tables, with its upgrade and downgrade."""
