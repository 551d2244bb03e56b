"""Compatibility of contract versions, with evidence: a record that one version accepts and the other refuses."""
