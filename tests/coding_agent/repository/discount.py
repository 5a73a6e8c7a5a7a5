"""Prices of a small shop, in cents."""


def price(quantity, each):
    """Return what so many cost; from ten on, each costs a tenth less."""
    if quantity > 10:
        each = each - each // 10
    return quantity * each
