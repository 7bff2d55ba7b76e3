"""Dynamo's graph deployments and its GlobalRouter."""
