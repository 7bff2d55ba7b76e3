"""Clusters: our own form, FlexTopo objects and what nodes say of themselves."""
