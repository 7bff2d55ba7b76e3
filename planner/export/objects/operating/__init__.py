"""What a platform is told of a running plan: which metrics stand for its promises, and how many copies it may have."""
