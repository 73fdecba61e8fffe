#!/bin/sh
# Hands one hook event, as JSON on stdin, to Orchestra. It never holds up or fails the client:
# without the program, or with an event it cannot store, the event is dropped.
if ! command -v orchestra >/dev/null 2>&1; then
    cat >/dev/null
    exit 0
fi
orchestra hook || true
