"""Names of our own beside names of users'."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.statements.internal_names import InternalNames

WORDS = ["action", "file_number", "is_change", "action_2"]


@given(st.sets(st.sampled_from([*WORDS, "ACTION", "Action_2", "action_3", "file_number_2", "ſ", "other"])))
def test_names_are_free_and_differ(taken):
    names = InternalNames.beside(taken)
    given = [names.of(word) for word in WORDS]
    assert len(set(given)) == len(given)
    assert not {name.lower() for name in given} & {name.lower() for name in taken}
    assert given == [names.of(word) for word in WORDS]


def test_a_letter_that_is_another_one_in_capitals():
    assert InternalNames.beside(["ſource_row"]).of("source_row") == "source_row_2"
