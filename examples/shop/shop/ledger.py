"""A double-entry journal."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from shop.money import ZERO, Money


class LedgerError(ValueError):
    """An entry that would not balance."""


@dataclass(frozen=True)
class Entry:
    """One booking: `debit` receives what `credit` gives."""

    day: date
    text: str
    debit: str
    credit: str
    amount: Money


class Ledger:
    """Entries in the order they were booked."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def book(self, day: date, text: str, debit: str, credit: str, amount: Money) -> Entry:
        """Add an entry; raises LedgerError for a negative amount or an account booked against itself."""
        if amount < ZERO:
            raise LedgerError(f"{text}: amounts are positive, got {amount}")
        if debit == credit:
            raise LedgerError(f"{text}: {debit} cannot be booked against itself")
        entry = Entry(day, text, debit, credit, amount)
        self.entries.append(entry)
        return entry

    def balance(self, account: str, until: date | None = None) -> Money:
        """Sum debits less credits of an account, up to and including a day."""
        result = ZERO
        for entry in self.entries:
            if until is not None and entry.day >= until:
                continue
            if entry.debit == account:
                result = result + entry.amount
            if entry.credit == account:
                result = result - entry.amount
        return result

    def accounts(self) -> list[str]:
        """List all accounts, sorted."""
        return sorted({e.debit for e in self.entries} | {e.credit for e in self.entries})

    def trial_balance(self) -> dict[str, Money]:
        """Give every account's balance; they sum to zero."""
        return {account: self.balance(account) for account in self.accounts()}

    def monthly(self, account: str) -> dict[str, Money]:
        """Sum an account's movements by month."""
        months: dict[str, Money] = defaultdict(lambda: ZERO)
        for entry in self.entries:
            month = f"{entry.day.year}-{entry.day.month}"
            if entry.debit == account:
                months[month] = months[month] + entry.amount
            if entry.credit == account:
                months[month] = months[month] - entry.amount
        return dict(months)
