"""Random faults for a given time."""
