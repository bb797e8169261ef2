"""Tables in Markdown."""


def line(cells: list[str]) -> list[str]:
    """One line of a table."""
    return [f"| {' | '.join(cells)} |"]


def head(names: list[str]) -> list[str]:
    """The names of the columns and the rule below them."""
    return [*line(names), "|---" * len(names) + "|"]
