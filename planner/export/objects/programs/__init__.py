"""Programs of routers in the form of a target: Kubernetes objects, or scripts."""
