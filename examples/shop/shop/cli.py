"""`python -m shop.cli CATALOG COMMAND …`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from shop import __version__
from shop.catalog import CatalogError, load_csv
from shop.reports import table


def parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    made = argparse.ArgumentParser(prog="shop", description="A small order book.")
    made.add_argument("--version", action="version", version=__version__)
    made.add_argument("catalog", type=Path, help="CSV file of products")
    commands = made.add_subparsers(dest="command", required=True)
    search = commands.add_parser("search", help="find products by words")
    search.add_argument("query")
    commands.add_parser("list", help="list all products by category")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 if all went well, 1 for a file that cannot be used."""
    options = parser().parse_args(argv)
    try:
        catalog = load_csv(options.catalog)
    except CatalogError as error:
        print(f"shop: {error}", file=sys.stderr)
        return 1
    if options.command == "search":
        rows = [[p.sku, p.name, str(p.price)] for p in catalog.search(options.query)]
    else:
        rows = [[p.sku, p.name, str(p.price)] for group in catalog.by_category().values() for p in group]
    print(table(["sku", "name", "price"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
