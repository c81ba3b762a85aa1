"""Figure: one measured thing, as ratios of ours to a limit taken in the same run, a pair a round. The table and the JSON are made of them."""

import math
import statistics


def quantile(values, share):
    """The value below which this share of them lies; the largest for few values and a large share."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def ratio(ours, limit):
    """Nothing against nothing is 1."""
    if limit == 0:
        return 1.0 if ours == 0 else math.inf
    return ours / limit


def short(value):
    if value is None:
        return "-"
    if value == math.inf:
        return "inf"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Figure:
    """goal is ("<=" or ">=", ratio), or None where there is nothing to reach."""

    def __init__(self, name, unit, limit_is, goal=None):
        self.name, self.unit, self.limit_is, self.goal = name, unit, limit_is, goal
        self.ours, self.limit, self.notes = [], [], {}

    def add(self, ours, limit):
        self.ours.append(ours)
        self.limit.append(limit)

    def note(self, **words):
        """More of what was seen, for the JSON alone."""
        self.notes.update(words)

    @property
    def ratios(self):
        return [ratio(o, m) for o, m in zip(self.ours, self.limit)]

    @property
    def met(self):
        if not self.goal:
            return None
        sign, bound = self.goal
        median = statistics.median(self.ratios)
        return median <= bound if sign == "<=" else median >= bound

    def to_json(self):
        return {"name": self.name, "unit": self.unit, "limit_is": self.limit_is, "ours": self.ours, "limit": self.limit,
                "rounds": len(self.ours), "ratio": {"median": statistics.median(self.ratios), "min": min(self.ratios), "max": max(self.ratios)},
                "goal": "".join(map(str, self.goal)) if self.goal else None, "met": self.met, **self.notes}

    @staticmethod
    def from_json(record):
        sign = record["goal"] and record["goal"][:2]
        figure = Figure(record["name"], record["unit"], record["limit_is"], (sign, float(record["goal"][2:])) if sign else None)
        figure.ours, figure.limit = record["ours"], record["limit"]
        return figure

    def cells(self):
        ratios = self.ratios
        spread = f"{short(min(ratios))}-{short(max(ratios))}"
        goal = f"{self.goal[0]} {self.goal[1]:g}" if self.goal else "-"
        met = {None: "-", True: "met", False: "MISSED"}[self.met]
        return [self.name, self.unit, short(statistics.median(self.ours)), short(statistics.median(self.limit)), self.limit_is,
                short(statistics.median(ratios)), spread, str(len(ratios)), goal, met]


HEAD = ["figure", "unit", "ours", "limit", "the limit is", "ratio", "spread", "rounds", "goal", ""]


def table(figures, markdown=False):
    rows = [HEAD] + [figure.cells() for figure in figures]
    if markdown:
        rows.insert(1, ["---"] * len(HEAD))
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
