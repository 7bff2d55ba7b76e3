"""Routers as programs before engines without a model."""
