"""The server's certificate: read at start, and read anew when its files change.

A renewed certificate counts for every connection that is made from then on; those that are open go
on. Files that do not fit together (a renewal is under way) or cannot be read change nothing: what
was good stays, and the log says so.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import NoReturn

from cryptography import x509

from stoker.domain.errors import AppError

log = logging.getLogger("stoker.api")

LOOK_S = 2.0
"""How often the files are looked at."""


class Certificate:
    """`context` is what the server uses. Raises AppError when the files cannot be used."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._seen = self._stamps()
        self.context = self._read()
        self.names = names_of(certificate)
        """Host names that it is good for."""

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.refresh()

    def refresh(self) -> bool:
        """Take new files if there are any. True when the certificate is another one now."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        try:
            self._read()  # both files together, before the context in use is touched
            self.context.load_cert_chain(*self._files)
        except (AppError, OSError) as error:
            log.warning("event=certificate_unusable why=%r", _why(error))
            return False
        log.info("event=certificate_renewed")
        return True

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # a key with a passphrase must not ask on a terminal that nobody sees
            context.load_cert_chain(*self._files, password=_refuse_to_ask)
        except (OSError, ValueError) as error:
            raise AppError("tls_unusable", field="tls_cert", why=_why(error)) from error
        return context

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._files)


def names_of(certificate: Path) -> tuple[str, ...]:
    """The DNS names that a certificate names, without wildcards."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError, OSError):
        return ()
    names = extension.value.get_values_for_type(x509.DNSName)
    return tuple(name.lower() for name in names if "*" not in name)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _refuse_to_ask() -> NoReturn:
    raise ValueError("the key has a passphrase")


def _why(error: BaseException) -> str:
    if isinstance(error, AppError):
        return str(error.values.get("why", error.code))
    return str(getattr(error, "strerror", None) or error)
