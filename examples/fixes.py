"""The scripted decisions: for every planted bug the failing test, where to look, and the edit that mends it."""

from __future__ import annotations

from typing import NamedTuple


class Fix(NamedTuple):
    """One decision: test, file, symbol to search, text to replace, replacement, reason in English and Chinese."""

    test: str
    path: str
    symbol: str
    old: str
    new: str
    why: str
    zh: str


FIXES = (
    Fix("tests.test_money.TestMoney.test_text", "shop/money.py", "divmod",
        'return f"{sign}{whole:,}.{rest} EUR"', 'return f"{sign}{whole:,}.{rest:02d} EUR"',
        "Cents below ten lose their zero: 1,234.05 prints as 1,234.5.", "不足十分的金额少了一个零：1,234.05 打印成了 1,234.5。"),
    Fix("tests.test_money.TestMoney.test_percent_rounds_half_up", "shop/money.py", "def percent",
        "        return Money(int(self.cents * rate / 100))",
        "        share = self.cents * rate / 100\n        return Money(int(share + 0.5) if share >= 0 else -int(-share + 0.5))",
        "int() cuts towards zero, but shares are to be rounded half up.", "int() 直接截断，而分成应当四舍五入。"),
    Fix("tests.test_money.TestMoney.test_parse", "shop/money.py", "def parse",
        "    cents = int(whole.replace(\",\", \"\")) * 100 + int(rest or 0)",
        "    cents = int(whole.replace(\",\", \"\")) * 100 + int((rest or \"\").ljust(2, \"0\"))",
        "'12.5' means 12.50, but the single digit is read as 5 cents.", "“12.5” 表示 12.50，但单个数字被当成了 5 分。"),
    Fix("tests.test_orders.TestOrders.test_same_sku_adds_up", "shop/orders.py", "order.lines[place]",
        "                order.lines[place] = Line(product, quantity)",
        "                order.lines[place] = Line(product, line.quantity + quantity)",
        "Adding a sku again replaces the quantity instead of raising it.", "重复添加同一 sku 时数量被覆盖，而不是累加。"),
    Fix("tests.test_orders.TestOrders.test_reserved_stock_is_not_available", "shop/inventory.py", "def reserve",
        "        if quantity > self.on_hand(sku):", "        if quantity > self.available(sku):",
        "The check looks at the warehouse, not at what is still free.", "检查用的是库存总数，而不是还能预留的数量。"),
    Fix("tests.test_rest.TestInventory.test_reserving_twice_adds_up", "shop/inventory.py", "_reserved[order_id, sku]",
        "        self._reserved[order_id, sku] = quantity",
        "        self._reserved[order_id, sku] = self._reserved.get((order_id, sku), 0) + quantity",
        "A second reservation of the same order forgets the first.", "同一订单的第二次预留会丢掉第一次。"),
    Fix("tests.test_orders.TestOrders.test_all_or_nothing", "shop/orders.py", "def place",
        "        for line in order.lines:\n            self.inventory.reserve(order.order_id, line.product.sku, line.quantity)",
        "        try:\n            for line in order.lines:\n                self.inventory.reserve(order.order_id, "
        "line.product.sku, line.quantity)\n        except StockError:\n            self.inventory.release(order.order_id)\n"
        "            raise",
        "If the second line cannot be reserved, the first stays reserved.", "第二行预留失败时，第一行仍被占用。"),
    Fix("tests.test_orders.TestOrders.test_all_or_nothing", "shop/orders.py", "import Inventory",
        "from shop.inventory import Inventory\n", "from shop.inventory import Inventory, StockError\n",
        "The new handler needs StockError imported.", "新的异常处理需要导入 StockError。"),
    Fix("tests.test_orders.TestOrders.test_discount_from_the_least_quantity_on", "shop/pricing.py", "least:",
        "        if sum(line.quantity for line in concerned) > least:",
        "        if sum(line.quantity for line in concerned) >= least:",
        "'from the least quantity on' includes the least quantity.", "“从最低数量起”应包含最低数量本身。"),
    Fix("tests.test_orders.TestOrders.test_payment_balances", "shop/ledger.py", "until",
        "            if until is not None and entry.day >= until:", "            if until is not None and entry.day > until:",
        "The docstring says up to and including the day.", "文档写明包含当天，代码却把当天排除了。"),
    Fix("tests.test_rest.TestCatalog.test_load_and_search", "shop/catalog.py", "def matches",
        "        words = query.split()", "        words = query.lower().split()",
        "The haystack is lower case, the query is not.", "被搜索文本是小写，查询词却没有转成小写。"),
    Fix("tests.test_rest.TestCatalog.test_load_and_search", "shop/catalog.py", "any(word",
        "        return any(word in haystack for word in words)", "        return all(word in haystack for word in words)",
        "Several words narrow a search; any() widens it.", "多个词应当缩小范围，any() 却放大了范围。"),
    Fix("tests.test_rest.TestCatalog.test_categories_are_sorted", "shop/catalog.py", "def by_category",
        "        return groups\n", "        return dict(sorted(groups.items()))\n",
        "The docstring promises sorted categories.", "文档承诺分类有序，但实际没有排序。"),
    Fix("tests.test_rest.TestInventory.test_low_is_below_the_level", "shop/inventory.py", "def low",
        "if self.available(sku) <= level)", "if self.available(sku) < level)",
        "Low means below the level, not at it.", "“低于”不包含等于。"),
    Fix("tests.test_rest.TestLedger.test_months_sort", "shop/ledger.py", "def monthly",
        'month = f"{entry.day.year}-{entry.day.month}"', 'month = f"{entry.day:%Y-%m}"',
        "Months need two digits to sort.", "月份需要两位数字才能正确排序。"),
    Fix("tests.test_rest.TestReports.test_sales_counts_shipped_orders", "shop/reports.py", "whole = total",
        "    whole = total([o.quoted.net for o in orders if o.quoted and o.state is State.PAID])",
        "    whole = total([o.quoted.net for o in orders if o.quoted and o.state in (State.PAID, State.SHIPPED)])",
        "The rows show shipped orders, the total leaves them out.", "表格包含已发货订单，合计却漏掉了。"),
    Fix("tests.test_rest.TestReports.test_best_sellers_leave_cancelled_orders_out", "shop/reports.py", "def best_sellers",
        "    for order in orders:\n        for line in order.lines:\n            counts",
        "    for order in orders:\n        if order.state is State.CANCELLED:\n            continue\n"
        "        for line in order.lines:\n            counts",
        "Cancelled orders are counted although the docstring excludes them.", "已取消的订单不应计入。"),
    Fix("tests.test_rest.TestStorage.test_round_trip_keeps_the_quote", "shop/storage.py", "def order_to_dict",
        '        "lines": [{"sku"',
        '        "quote": order.quoted and [order.quoted.gross.cents, order.quoted.discount.cents, order.quoted.tax.cents],\n'
        '        "lines": [{"sku"',
        "The quote is not written at all.", "报价根本没有写入文件。"),
    Fix("tests.test_rest.TestStorage.test_round_trip_keeps_the_quote", "shop/storage.py", "def order_from_dict",
        '        state=State(data["state"]),\n',
        '        state=State(data["state"]),\n'
        '        quoted=Quote(*map(Money, data["quote"])) if data.get("quote") else None,\n',
        "Reading must restore it.", "读取时也要恢复报价。"),
    Fix("tests.test_rest.TestStorage.test_round_trip_keeps_the_quote", "shop/storage.py", "from shop.pricing",
        "from shop.pricing import Line\n", "from shop.money import Money\nfrom shop.pricing import Line, Quote\n",
        "Quote and Money have to be imported.", "需要导入 Quote 和 Money。"),
)  # fmt: skip
