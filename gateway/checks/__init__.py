"""Changes of contracts, checked before they merge: what is compared with what, and reports for people and machines."""
