"""A model file that is served, and its replacement while requests go on."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import place
from ordinalrbm.serve.service import Service, service_for, warm
from ordinalrbm.storage import model_file

log = logging.getLogger("ordinalrbm.serve")


class ServedModel:
    """A model file under a name; requests see the model that was loaded last.

    Parameters
    ----------
    name : str
        What it is called in addresses, ``/models/NAME/...``.
    path : path
        The model file. When it is replaced, :meth:`refresh` loads the new one.
    titles : mapping from id to title, optional
        Of items, with ids as text.
    warm : bool, default=True
        Whether to compile and compute all that requests need here and now. Else the application does
        so when it starts, and says until then that it is not ready.
    """

    def __init__(
        self,
        name: str,
        path: str | os.PathLike,
        titles: Mapping[str, str] | None = None,
        *,
        warm: bool = True,
    ) -> None:
        self.name, self.path, self.titles = name, place(path), titles or {}
        self._lock = threading.Lock()
        self.error: str | None = None  # why the file as it is now was not loaded
        self._stamp = self._stamp_now()
        self.service, self.loaded = self._load(), time.gmtime()
        self.is_ready = self.takes_changes = False
        if warm:
            self.warm()

    def warm(self) -> None:
        """Compile and compute whatever a request may need."""
        if not self.is_ready:
            warm(self.service, changes=self.takes_changes)
            self.is_ready = True

    def take_changes(self) -> None:
        """Be ready for requests that change the model, too."""
        self.takes_changes, was_ready = True, self.is_ready
        self.is_ready = False
        if was_ready:
            self.warm()

    def _stamp_now(self) -> tuple[int, ...]:
        """What changes when the file does."""
        try:
            found = self.path.stat()
        except (OSError, DataError):
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> Service:
        return service_for(model_file.load(self.path), self.titles)

    def refresh(self) -> Literal["loaded", "refused"] | None:
        """Load the file if it has changed; None if it has not.

        A file that is refused leaves the model as it was, and is not tried again until it changes.
        """
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return None
        try:
            service = self._load()
            if type(service) is not type(self.service):
                raise DataError(f"File '{self.path}' holds a model of another kind; serve it anew.")
            warm(service, changes=self.takes_changes)
        except Exception as error:
            said = " ".join(str(error).split())
            self._stamp, self.error = stamp, said.replace(str(self.path), self.path.name)
            log.error("%s: the model stays as it was. %s", self.name, said)
            return "refused"
        with self._lock:  # an update that is running changes the old model
            if self._stamp_now() != stamp:  # replaced once more: the next look is for that one
                return None
            self._stamp, self.service, self.loaded, self.error = stamp, service, time.gmtime(), None
            self.is_ready = True
        log.info("%s: the new model in %s is live.", self.name, self.path.name)
        return "loaded"

    def change(self, do: Callable[[Any], Any], *, keep: bool = False) -> Any:
        """Change the model, and with ``keep`` its file, unless that is newer.

        The model is not replaced meanwhile.
        """
        with self._lock:
            if keep and self._stamp_now() != self._stamp:
                raise DataError(f"File '{self.path.name}' is being replaced; ask again in some seconds.")
            found = do(self.service)
            if keep:
                self._save()
        return found

    def _save(self) -> None:
        try:
            self.service.model.save(self.path)
        except DataError as error:
            raise type(error)(f"{error} The change is in memory; call /save when there is room.") from error
        self._stamp, self.error = self._stamp_now(), None

    def health(self) -> dict[str, Any]:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", self.loaded)
        kind = type(self.service.model).__name__
        return {"model": kind, "loaded": when, "ready": self.is_ready, "error": self.error}
