"""slack_sdk: its real clients against Slack's answers; Slack says 200 and puts the reason into the body."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught, caught_async
from outlast import RETRYABLE, Category, Origin
from outlast.classify.safe_access import read_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast import Evidence

C = Category
_JSON = {"Content-Type": "application/json"}


def _client(url: str, **options: Any) -> Any:
    from slack_sdk import WebClient

    return WebClient("xoxb-s3cret", base_url=url.rstrip("/") + "/", retry_handlers=[], **options)


def _post(url: str, **options: Any) -> BaseException:
    return caught(_client(url, **options).chat_postMessage, channel="C1", text="hello")


def _post_async(url: str) -> BaseException:
    from slack_sdk.web.async_client import AsyncWebClient

    async def post() -> None:
        client = AsyncWebClient("xoxb-s3cret", base_url=url + "/", retry_handlers=[])
        await client.chat_postMessage(channel="C1", text="hello")

    return caught_async(post)


def _answer(code: str) -> str:
    return json.dumps({"ok": False, "error": code})


CODES: dict[str, Category] = {
    "invalid_auth": C.AUTHENTICATION,
    "not_authed": C.AUTHENTICATION,
    "token_revoked": C.AUTHENTICATION,
    "token_expired": C.AUTHENTICATION,
    "account_inactive": C.AUTHENTICATION,
    "missing_scope": C.AUTHENTICATION,
    "channel_not_found": C.NOT_FOUND,
    "user_not_found": C.NOT_FOUND,
    "is_archived": C.NOT_FOUND,
    "not_in_channel": C.INVALID_PARAMETERS,
    "msg_too_long": C.INVALID_PARAMETERS,
    "no_text": C.INVALID_PARAMETERS,
    "invalid_blocks": C.INVALID_PARAMETERS,
    "name_taken": C.INVALID_PARAMETERS,
    "ratelimited": C.RATE_LIMIT,
    "message_limit_exceeded": C.RATE_LIMIT,
    "internal_error": C.API_TEMPORARY,
    "fatal_error": C.API_TEMPORARY,
    "service_unavailable": C.API_TEMPORARY,
    "request_timeout": C.API_TEMPORARY,
    "team_added_to_org": C.API_TEMPORARY,
    "storage_limit_reached": C.QUOTA_EXHAUSTED,
    "unknown_method": C.CONFIGURATION,
}


def _code_case(code: str, category: Category) -> Case:
    def produce(world: World) -> BaseException:
        return _post(world.faults.base(200, _JSON, _answer(code)))

    retryable = category in RETRYABLE
    return Case(f"slack/{code}", produce, category, retryable, http_status=200, code=code, origin=Origin.HTTP)


def _case(name: str, produce: Callable[[Any], Any], category: Category, **more: Any) -> Case:
    return Case(f"slack/{name}", lambda world: produce(world.faults), category, category in RETRYABLE, **more)


def _limited(ask: Callable[[str], BaseException], server: Any) -> BaseException:
    return ask(server.base(429, {**_JSON, "Retry-After": "30"}, _answer("ratelimited")))


def _webhook(status: int, headers: dict[str, str], text: str, server: Any) -> Evidence | None:
    """A webhook answers with a status and a word; the client raises nothing."""
    from slack_sdk.webhook import WebhookClient

    client = WebhookClient(server.base(status, headers, text), retry_handlers=[])
    return read_response(client.send(text="hello"))


def _webhook_refused(server: Any) -> BaseException:
    from slack_sdk.webhook import WebhookClient

    return caught(WebhookClient(server.refused_url, retry_handlers=[]).send, text="hello")


def _rotation(server: Any) -> BaseException:
    from slack_sdk.oauth.installation_store import Bot
    from slack_sdk.oauth.token_rotation import TokenRotator

    client = _client(server.base(200, _JSON, _answer("invalid_refresh_token")))
    bot = Bot(
        bot_token="x", bot_id="B", bot_user_id="U", installed_at=1.0, bot_refresh_token="r", bot_token_expires_at=1
    )
    rotator = TokenRotator(client_id="i", client_secret="s", client=client)
    return caught(rotator.perform_bot_token_rotation, bot=bot)


def _rotation_down(server: Any) -> BaseException:
    from slack_sdk.errors import SlackTokenRotationError

    return SlackTokenRotationError(_post(server.base(200, _JSON, _answer("service_unavailable"))))


def _closed_socket(_server: Any) -> BaseException:
    from logging import getLogger

    from slack_sdk.socket_mode.builtin.connection import Connection

    return caught(Connection("ws://127.0.0.1:9/", getLogger("corpus.slack")).send, "hello")


def _malformed_block(_server: Any) -> BaseException:
    from slack_sdk.models.blocks import SectionBlock

    return caught(SectionBlock().to_dict)


def _small_buffer(_server: Any) -> BaseException:
    from slack_sdk.socket_mode import SocketModeClient

    return caught(SocketModeClient, app_token="xapp-s3cret", receive_buffer_size=1)


def _odd_proxy(server: Any) -> BaseException:
    client = _client(server.url("/"))
    client.proxy = 7
    return caught(client.chat_postMessage, channel="C1", text="hello")


def _no_file(server: Any) -> BaseException:
    return caught(_client(server.url("/")).files_upload_v2, channel="C1", file=7, filename="f")


CASES = [
    *(_code_case(*pair) for pair in CODES.items()),
    _case("429", partial(_limited, _post), C.RATE_LIMIT, retry_after=30, http_status=429, code="ratelimited"),
    _case("429-async", partial(_limited, _post_async), C.RATE_LIMIT, retry_after=30, http_status=429),
    _case("500-html", lambda s: _post(s.base(500, {}, "<h1>oops</h1>")), C.API_TEMPORARY, http_status=500),
    _case("503-json", lambda s: _post(s.base(503, _JSON, _answer("boom"))), C.API_TEMPORARY, http_status=503),
    _case("200-html", lambda s: _post(s.base(200, {"Content-Type": "text/html"}, "<h1>hi</h1>")), C.DATA),
    _case("refused", lambda s: _post(s.refused_url), C.NETWORK),
    _case("reset", lambda s: _post(s.fault("reset")), C.NETWORK),
    _case("timeout", lambda s: _post(s.fault("stall"), timeout=0.1), C.NETWORK),
    _case("url-of-no-http", lambda _: _post("ftp://127.0.0.1"), C.CONFIGURATION),
    _case("proxy-of-no-text", _odd_proxy, C.CONFIGURATION),
    _case("upload-without-file", _no_file, C.INVALID_PARAMETERS),
    _case("socket-closed", _closed_socket, C.NETWORK),
    _case("small-buffer", _small_buffer, C.CONFIGURATION),
    _case("malformed-block", _malformed_block, C.INVALID_PARAMETERS),
    _case("rotation-refused", _rotation, C.AUTHENTICATION, code="invalid_refresh_token"),
    _case("rotation-while-down", _rotation_down, C.API_TEMPORARY, code="service_unavailable", constructed=True),
    _case("webhook-429", partial(_webhook, 429, {"Retry-After": "1"}, "rate_limited"), C.RATE_LIMIT, retry_after=1),
    _case("webhook-404", partial(_webhook, 404, {}, "no_service"), C.NOT_FOUND, http_status=404),
    _case("webhook-400", partial(_webhook, 400, {}, "invalid_payload"), C.INVALID_PARAMETERS, http_status=400),
    _case("webhook-410", partial(_webhook, 410, {}, "channel_is_archived"), C.NOT_FOUND, http_status=410),
    _case("webhook-refused", _webhook_refused, C.NETWORK),
]
