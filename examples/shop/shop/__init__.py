"""A small order book: money, catalogue, stock, prices, orders, ledger, reports."""

__version__ = "0.4.1"
