"""Numbers as text: rounded, thousands apart, with a true minus; a dash where there is none."""

DASH = "–"


def format_number(value: float | int | None, digits: int = 0, sign: str = "") -> str:
    """With so many digits after the point; `sign` is "+" where positive numbers show theirs too."""
    if value is None:
        return DASH
    text = f"{value:{sign},.{digits}f}"
    # what rounds to zero has no sign
    text = text.lstrip("+-") if not any(digit in text for digit in "123456789") else text
    return text.replace("-", "−")


def format_mean(mean: float | None, sd: float | None, digits: int = 1, sign: str = "") -> str:
    """A mean, and its standard deviation where there is one."""
    text = format_number(mean, digits, sign)
    return text if mean is None or sd is None else f"{text} ± {sd:.{digits}f}"


def format_p(p: float | None) -> str:
    """A p value, to three digits."""
    return "< 0.001" if p is not None and p < 0.001 else format_number(p, 3)


def format_psnr(squared_error: float | None, psnr: float | None) -> str:
    """In decibels; images without any error have no finite one."""
    return "exact" if squared_error == 0 else format_number(psnr, 1)
