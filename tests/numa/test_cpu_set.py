"""CPU lists: what Linux writes is read, everything else is refused with its reason."""

import pytest

from holdfast.runtime.errors import BadRequest
from holdfast.state.numa.cpu_set import format_cpu_list, lowest, members_of, parse_cpu_list


@pytest.mark.parametrize("text", ["", "0", "0-3,8", "1,3,5", "8191", "0-8191"])
def test_a_list_is_written_as_it_was_read(text):
    assert format_cpu_list(parse_cpu_list(text)) == text


@pytest.mark.parametrize(
    "text",
    ["a", "-1", "1-", "3-1", "0,,1", "0;1", "0-4000000000", "8192", "0-1-2", "1.5", "٣", "1\x00"],
)
def test_a_bad_list_is_refused(text):
    with pytest.raises(BadRequest, match="not a CPU list such as 0-3,8"):
        parse_cpu_list(text)


def test_order_and_repetition_do_not_matter():
    assert format_cpu_list(parse_cpu_list("8,0-3, 2-4\n")) == "0-4,8"
    assert members_of(parse_cpu_list("8,0-1")) == [0, 1, 8]
    assert lowest(0b1011, 9) == 0b1011
