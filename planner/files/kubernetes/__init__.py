"""Lists of kubectl and objects of the Kubernetes API."""
