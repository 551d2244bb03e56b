"""A quick way past the judge: it says of most good records that they are good, and of all others nothing.

What it accepts, the exact way accepts too; property tests hold it to that. Records are decoded straight into a typed
row, by msgspec, which refuses what the schema's types and bounds refuse; the rules are asked of the row in one compiled
function; and the strings that have a pattern or a format are matched for a whole block of records at once.
"""
