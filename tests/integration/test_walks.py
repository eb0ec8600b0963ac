"""How many rooms a reader enters from what a user writes to what it becomes; a room is a module whose code runs."""

import sys

import lt
from lt_core import Strategy


def rooms_until_made(make):
    """Return the modules of ours that are entered until a function returns a Strategy."""
    make()  # what is imported and looked up once is no step of the walk
    rooms, made = {}, []

    def watch(frame, event, argument):
        room = frame.f_globals.get("__name__", "")
        if event == "call" and room.startswith("lt_") and not made:
            rooms.setdefault(room, frame.f_code.co_name)
        if event == "return" and isinstance(argument, Strategy):
            made.append(argument)

    sys.setprofile(watch)
    try:
        make()
    finally:
        sys.setprofile(None)
    assert made
    return rooms


def test_a_strategy_is_an_object_after_at_most_a_dozen_rooms():
    rooms = rooms_until_made(lambda: lt.Trainer(strategy="ddp"))
    print(len(rooms), rooms)
    assert len(rooms) <= 12
