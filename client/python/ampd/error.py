"""The error that ampd.export raises."""

__all__ = ["ExportError"]


class ExportError(Exception):
    """The model can't be taken to ampd; the text says why."""
