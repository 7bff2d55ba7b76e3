"""Every key of every document, with what it may hold, as the readers of these documents know them. Door: `key_rows`."""

from planner.files.reference.keys import DOCUMENTS, KeyRow, key_rows

__all__ = ["DOCUMENTS", "KeyRow", "key_rows"]
