"""The server's HTTP parser, which ignores offers to switch to another protocol (RFC 9110, 7.8).

Java clients offer h2c with every request. The parser stops there and hands the rest of the connection, with the
request's body, to a protocol that nobody speaks here; so the request is read once more without the offer.
"""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from danshari.proxy.http.request import UPGRADE_HEADER

_OFFERS = (b"upgrade", b"connection", b"http2-settings")


class WithoutUpgrades(HttpToolsProtocol):
    """Reads requests; an offer to upgrade is moved to a header of another name."""

    def data_received(self, data: bytes) -> None:
        """Read bytes; where the parser stops at an offer, go on behind it with a new parser."""
        self._unset_keepalive_if_required()
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as stop:
                head, data = self._head_without_offer(), data[stop.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.feed_data(head)
                continue
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
            return

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the request will be read once more."""
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the request's body, likewise."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _head_without_offer(self) -> bytes:
        offered = b",".join(value for name, value in self.headers if name == b"upgrade")
        kept = [(name, value) for name, value in self.headers if name not in _OFFERS]
        first = b"%s %s HTTP/1.1\r\n" % (self.parser.get_method(), self.url)
        lines = [b"%s: %s\r\n" % pair for pair in (*kept, (UPGRADE_HEADER.encode(), offered))]
        return b"".join([first, *lines, b"\r\n"])
