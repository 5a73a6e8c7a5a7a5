"""Distinguish card numbers, account numbers and the like from other digits, by their issuers' check digits."""

from __future__ import annotations

from ipaddress import ip_address

# The length of an account number (IBAN) by country.
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def is_card(text: str) -> bool:
    """Return whether digits, in groups or not, are those of a payment card: issuer, length and check digit."""
    digits = [int(character) for character in text if character.isdigit()]
    if len(digits) not in _card_lengths(digits[0], digits[1] if len(digits) > 1 else 0):
        return False
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0 and len(set(digits)) > 1


def _card_lengths(first: int, second: int) -> tuple[int, ...]:
    """Return how many digits the cards have whose number begins so."""
    if first == 3:
        return {4: (15,), 7: (15,), 5: (16,)}.get(second, (14,) if second in (0, 6, 8, 9) else ())
    return {2: (16,), 4: (13, 16, 19), 5: (16,), 6: (16, 17, 18, 19)}.get(first, ())


def iban_end(text: str, start: int) -> int | None:
    """Return where the account number ends that begins at `start`, None if none does.

    Single spaces between its characters are part of it. What follows may be anything but a letter or digit.
    """
    length = _IBAN_LENGTHS.get(text[start : start + 2].upper())
    if length is None:
        return None
    found: list[str] = []
    position = start
    while len(found) < length and position < len(text):
        character = text[position]
        if character.isascii() and character.isalnum():
            found.append(character.upper())
        elif character != " " or text[position - 1] == " ":
            return None
        position += 1
    if len(found) < length or text[position : position + 1].isalnum():
        return None
    number = "".join(str(int(character, 36)) for character in found[4:] + found[:4])
    return position if int(number) % 97 == 1 else None


def is_phone(text: str) -> bool:
    """Return whether a number that is written like a telephone's has as many digits as one."""
    return 8 <= sum(character.isdigit() for character in text) <= 15


def is_ip(text: str) -> bool:
    """Return whether this is an address, of version 4 or 6."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
