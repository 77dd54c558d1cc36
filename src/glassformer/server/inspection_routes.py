"""The routes that look inside the model, added to the app at the first request to one of them: they import PyTorch."""

import threading

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from glassformer.extras import explained
from glassformer.server.state import ServerState

PATHS = ("/api/explore", "/api/pronoun", "/api/weight")
"""What the paths of these routes begin with."""


class InspectionRoutes(BaseRoute):
    """A placeholder for the routes of traces, what-ifs, figures and pronouns, until one of them is requested."""

    def __init__(self, app: FastAPI, state: ServerState) -> None:
        self.app, self.state = app, state
        self._added = False
        self._lock = threading.Lock()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_wanted = not self._added and scope["type"] == "http" and scope["path"].startswith(PATHS)
        return (Match.FULL if is_wanted else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await run_in_threadpool(self.add)
        await self.app.router(scope, receive, send)

    def add(self) -> None:
        """Add the routes, unless they were added before; an error if PyTorch is not installed."""
        with self._lock, explained():
            if not self._added:
                from glassformer.server import figure_routes, pronoun_routes, trace_routes

                for module in (trace_routes, figure_routes, pronoun_routes):
                    self.app.include_router(module.routes(self.state))
                self._added = True
