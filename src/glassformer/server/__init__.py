"""HTTP server for one model: translation for many concurrent clients, inspection routes, and limits on every resource.

Needs the extra `serve`. Only `cli` and `notebook`, which calls the routes without a socket, import this package.
"""
