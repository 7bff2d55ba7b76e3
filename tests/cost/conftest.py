"""Properties are checked on the same examples every time, and a slow machine does not fail them."""

from hypothesis import settings

settings.register_profile("numeric core", deadline=None, derandomize=True)
settings.load_profile("numeric core")
