"""Properties are checked on the same examples every time, and a laden machine does not fail them."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
