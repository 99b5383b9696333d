"""The report that the demo prints at its end."""

from splitlib.demo import DemoData, report, wrong
from splitlib.demo import Run as DemoRun


def test_the_demo_says_which_answer_is_wrong() -> None:
    data = DemoData({}, ("1", "2", None), 7, frozenset({"2"}))
    right = DemoRun("right", 7, 1, 1, 1, 100, 0.5, ("2",))
    other = DemoRun("other", 8, 3, 3, 3, 300, 1.5)
    assert wrong(data, [right, other]) == [other]
    assert "WRONG: other counts 8; DuckDB counts 7." in report(data, [right, other])
    assert "All count 7 rows" in report(data, [right])
