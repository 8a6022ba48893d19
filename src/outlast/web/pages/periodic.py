"""The page of periodic tasks: the last run, how it ended, and the next one."""

from outlast.web.filters import paginate
from outlast.web.routing import PageData, PageRequest, PageRoute

_ROWS = 50


def _read_periodic(request: PageRequest) -> PageData:
    rows, part = paginate(request.app.store.periodic(), request.query, "page", _ROWS)
    return {
        "tasks": [{**row._asdict(), "here": row.name in request.app.schedule.names()} for row in rows],
        "pages": {"tasks": part},
    }


PAGES = (PageRoute("periodic", "/periodic", "periodic.html", _read_periodic),)
