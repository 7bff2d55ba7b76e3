"""The diagnosis of a cluster: page, JSON, figures."""
