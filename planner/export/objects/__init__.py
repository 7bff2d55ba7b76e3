"""Kubernetes objects and their parts."""
