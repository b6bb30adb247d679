"""The error that ampd.export raises."""

__all__ = ["ExportError"]


class ExportError(Exception):
    """The model can't be exported to ampd; the message gives the reason."""
