"""A model behind HTTP: translation for many clients at once, traces to look into, and bounds on all of it.

Needs the extra `serve`; nothing else in the package imports this room, save the command that starts it, and the
notebook, which asks its routes without a socket.
"""
