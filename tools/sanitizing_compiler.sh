#!/bin/sh
# C compiler for `make sanitize`: gcc with the caller's arguments, then those in SANITIZE_FLAGS, which take precedence.
exec gcc "$@" $SANITIZE_FLAGS
