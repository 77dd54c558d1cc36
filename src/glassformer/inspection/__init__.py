"""Looking inside a model that runs."""

from glassformer.inspection.record import Recording, record

__all__ = ["Recording", "record"]
