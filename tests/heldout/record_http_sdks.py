"""Language models, messaging, code hosting and business software: the clients' errors for the services' documented answers."""
# A case is one line, so that cases can be compared.
# fmt: off

from __future__ import annotations

import asyncio
from typing import Any

from .world import Cases, Reply, Service, epoch, reply

CASES = Cases()
TOKEN = "not-a-real-token"


def redirected(url: str) -> Any:
    """A session of requests that sends everything to the given server, for clients whose host is fixed."""
    from urllib.parse import urlsplit

    import requests
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def send(self, request: Any, **options: Any) -> Any:
            parts, target = urlsplit(request.url), urlsplit(url)
            request.url = parts._replace(scheme=target.scheme, netloc=target.netloc).geturl()
            options["timeout"] = 1
            return super().send(request, **options)

    session = requests.Session()
    for prefix in ("https://", "http://"):
        session.mount(prefix, Adapter())
    return session


# -- language models ---------------------------------------------------------------------------------------------------


def _cohere(url: str) -> None:
    import cohere

    cohere.ClientV2(TOKEN, base_url=url, timeout=1, max_retries=0).chat(model="command-r", messages=[{"role": "user", "content": "hi"}])


s = Service(CASES, "cohere", _cohere)
s.answers("401", reply(401, {"message": "invalid api token"}), "authentication", False, "the token is refused")
s.answers("404-model", reply(404, {"message": "model 'command-r' not found, make sure the correct model ID was used and that you have access to the model."}), "not_found", False, "no such model")
s.answers("400", reply(400, {"message": "invalid request: message must be at least 1 token long or tool results must be specified."}), "invalid_parameters", False, "the request is wrong")
s.answers("422", reply(422, {"message": "invalid type: parameter max_tokens is of type string but should be of type int."}), "invalid_parameters", False, "a parameter has the wrong type")
s.answers("429-minute", reply(429, {"message": "You are using a Trial key, which is limited to 20 API calls / minute. You can continue to use the Trial key for free or upgrade to a Production key with higher rate limits at 'https://dashboard.cohere.com/api-keys'. Contact us on 'https://discord.gg/XW44jPfYJu' or email us at support@cohere.com with any questions"}), "rate_limit", True, "a limit per minute passes")
s.answers("429-month", reply(429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month. You can continue to use the Trial key for free or upgrade to a Production key with higher rate limits at 'https://dashboard.cohere.com/api-keys'. Contact us on 'https://discord.gg/XW44jPfYJu' or email us at support@cohere.com with any questions"}), "quota_exhausted", False, "the calls of the month are used up")
s.answers("402", reply(402, {"message": "Please add or update your payment method at https://dashboard.cohere.com/billing?tab=payment to continue"}), "quota_exhausted", False, "billing has to be settled by a person", also=("authentication",))
s.answers("503", reply(503, {"message": "service unavailable, please retry"}), "api_temporary", True, "the service is away for a while")



def _mistral(url: str) -> None:
    from mistralai.client import Mistral

    Mistral(api_key=TOKEN, server_url=url, timeout_ms=1000).chat.complete(model="mistral-small-latest", messages=[{"role": "user", "content": "hi"}])


s = Service(CASES, "mistralai", _mistral)
s.answers("401", reply(401, {"detail": "Unauthorized"}), "authentication", False, "the key is refused")
s.answers("429", reply(429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "param": None, "code": "1300"}), "rate_limit", True, "too many requests for now")
s.answers("429-capacity", reply(429, {"object": "error", "message": "Service tier capacity exceeded for this model.", "type": "service_tier_capacity_exceeded", "param": None, "code": "3505"}), "rate_limit", True, "the tier is at capacity for now", also=("api_temporary",))
s.answers("400-model", reply(400, {"object": "error", "message": "Invalid model: mistral-foo", "type": "invalid_model", "param": None, "code": "1500"}), "invalid_parameters", False, "no such model", also=("not_found",))
s.answers("422", reply(422, {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required", "input": {}}]}), "invalid_parameters", False, "a field is missing")
s.answers("500", reply(500, {"object": "error", "message": "Internal server error", "type": "internal_server_error", "param": None, "code": "1000"}), "api_temporary", True, "the server failed")
s.answers("502-html", reply(502, "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>cloudflare</center></body></html>"), "api_temporary", True, "the gateway failed")
s.faults("html")


def _groq(url: str) -> None:
    import groq

    groq.Groq(api_key=TOKEN, base_url=url, max_retries=0, timeout=1).chat.completions.create(model="llama-3.3-70b-versatile", messages=[{"role": "user", "content": "hi"}])


def _groq_error(status: int, message: str, kind: str, code: str | None = None, **headers: str) -> Reply:
    return reply(status, {"error": {"message": message, "type": kind} | ({"code": code} if code else {})}, **headers)


s = Service(CASES, "groq", _groq)
s.answers("429-header", _groq_error(429, "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on requests per minute (RPM): Limit 30, Used 30, Requested 1. Please try again in 2s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing", "requests", "rate_limit_exceeded", retry_after="2"), "rate_limit", True, "a limit per minute with a stated wait", retry_after=2)
s.answers("429-text", _groq_error(429, "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Used 11562, Requested 9782. Please try again in 46.72s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing", "tokens", "rate_limit_exceeded"), "rate_limit", True, "a limit per minute; the text states the wait", retry_after=46.72)
s.answers("429-day", _groq_error(429, "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 99832, Requested 1200. Please try again in 14m51.648s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing", "tokens", "rate_limit_exceeded", retry_after="892"), "rate_limit", True, "a rolling daily limit with a stated wait of a quarter of an hour", retry_after=892, also=("quota_exhausted",))
s.answers("413-too-large", _groq_error(413, "Request too large for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on tokens per minute (TPM): Limit 9000, Requested 16008, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing", "tokens", "rate_limit_exceeded"), "invalid_parameters", False, "the request can never fit the limit", also=("quota_exhausted", "rate_limit"))
s.answers("401", _groq_error(401, "Invalid API Key", "invalid_request_error", "invalid_api_key"), "authentication", False, "the key is refused")
s.answers("404-model", _groq_error(404, "The model `llama-9` does not exist or you do not have access to it.", "invalid_request_error", "model_not_found"), "not_found", False, "no such model")
s.answers("400-decommissioned", _groq_error(400, "The model `llama2-70b-4096` has been decommissioned and is no longer supported. Please refer to https://console.groq.com/docs/deprecations for a recommendation on which model to use instead.", "invalid_request_error", "model_decommissioned"), "invalid_parameters", False, "the model is gone", also=("not_found",))
s.answers("503-capacity", _groq_error(503, "llama-3.3-70b-versatile is currently over capacity. Please try again and back off exponentially. Visit https://groqstatus.com to see if there is an active incident.", "internal_server_error"), "api_temporary", True, "over capacity for now")
s.answers("400-spend", _groq_error(400, "Organization has been restricted. Please reach out to support if you believe this was in error.", "invalid_request_error", "organization_restricted"), "authentication", False, "the account is locked until a person acts", also=("quota_exhausted", "access_denied"))
s.faults("timeout", "dns")


def _genai(url: str) -> None:
    from google import genai

    client = genai.Client(api_key=TOKEN, http_options={"base_url": url, "timeout": 1000})
    client.models.generate_content(model="gemini-2.0-flash", contents="hi")


def _google(status: int, name: str, message: str, *details: dict[str, Any]) -> Reply:
    return reply(status, {"error": {"code": status, "message": message, "status": name} | ({"details": list(details)} if details else {})})


s = Service(CASES, "google-genai", _genai)
s.answers("429-minute", _google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 15\nPlease retry in 26.349s.", {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaDimensions": {"location": "global", "model": "gemini-2.0-flash"}, "quotaValue": "15"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26s"}), "rate_limit", True, "a limit per minute with a stated delay", retry_after=26)
s.answers("400-key", _google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"}}), "authentication", False, "the key is refused, with status 400")
s.answers("400", _google(400, "INVALID_ARGUMENT", "* GenerateContentRequest.contents: contents is not specified\n"), "invalid_parameters", False, "the request is wrong")
s.answers("403", _google(403, "PERMISSION_DENIED", "Generative Language API has not been used in project 123456 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/generativelanguage.googleapis.com/overview?project=123456 then retry.", {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com"}), "authentication", False, "the API has to be enabled by a person", also=("access_denied", "configuration"))
s.answers("404", _google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta, or is not supported for generateContent."), "not_found", False, "no such model")
s.answers("503", _google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), "api_temporary", True, "overloaded for now")
s.answers("500", _google(500, "INTERNAL", "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"), "api_temporary", True, "the server failed")


def _genai_without_key() -> None:
    import os

    from google import genai

    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        os.environ.pop(name, None)
    genai.Client()


CASES.add("google-genai/no-key", "configuration", False, "no key was given", _genai_without_key, also=("authentication",))


def _together(url: str) -> None:
    import together

    together.Together(api_key=TOKEN, base_url=url, max_retries=0, timeout=1).chat.completions.create(model="meta-llama/Llama-3-8b-chat-hf", messages=[{"role": "user", "content": "hi"}])


s = Service(CASES, "together", _together)
s.answers("401", reply(401, {"id": "o1", "error": {"message": "Invalid API key provided. You can find your API key at https://api.together.xyz/settings/api-keys.", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}}), "authentication", False, "the key is refused")
s.answers("402", reply(402, {"error": {"message": "Credit limit exceeded. Please add credits at https://api.together.ai/settings/billing.", "type": "credit_limit", "param": None, "code": "credit_limit"}}), "quota_exhausted", False, "the credit is used up")
s.answers("429", reply(429, {"error": {"message": "You have reached the rate limit specific to this model meta-llama/Llama-3-8b-chat-hf. The maximum rate limit for this model is 6.0 queries per minute.", "type": "model_rate_limit", "param": None, "code": None}}, x_ratelimit_reset="8"), "rate_limit", True, "a limit per minute", retry_after=8)
s.answers("503", reply(503, {"error": {"message": "The server is overloaded or not ready yet.", "type": "server_error", "param": None, "code": "service_unavailable"}}), "api_temporary", True, "overloaded for now")
s.answers("422", reply(422, {"error": {"message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`", "type": "invalid_request_error", "param": "max_tokens", "code": None}}), "invalid_parameters", False, "the prompt is too long for the model")
s.faults("hangup")


def _replicate(url: str) -> None:
    import httpx
    import replicate

    replicate.Client(api_token=TOKEN, base_url=url, timeout=httpx.Timeout(1)).models.get("meta/llama-2-70b-chat")


s = Service(CASES, "replicate", _replicate)
s.answers("401", reply(401, {"title": "Unauthenticated", "detail": "You did not pass an authentication token", "status": 401}), "authentication", False, "no valid token")
s.answers("402", reply(402, {"title": "Insufficient credit", "detail": "You have insufficient credit to run this model. Go to https://replicate.com/account/billing#billing to purchase credit. Once you purchase credit, please wait a few minutes before trying again.", "status": 402}), "quota_exhausted", False, "the credit is used up")
s.answers("404", reply(404, {"detail": "The requested resource could not be found.", "status": 404}), "not_found", False, "no such model")
s.answers("422", reply(422, {"title": "Input validation failed", "detail": "- input: prompt is required\n", "status": 422, "invalid_fields": [{"type": "required", "field": "input", "description": "prompt is required"}]}), "invalid_parameters", False, "an input is missing")
s.answers("400", reply(400, {"title": "Invalid version or not permitted", "detail": "The specified version does not exist (or perhaps you don't have permission to use it?)", "status": 400}), "invalid_parameters", False, "the version is wrong", also=("not_found",))


def _hub(url: str) -> None:
    from huggingface_hub import HfApi

    HfApi(endpoint=url, token="hf_" + "x" * 20).model_info("someone/some-model", timeout=1)


s = Service(CASES, "huggingface_hub", _hub)
s.answers("401", reply(401, {"error": "Invalid credentials in Authorization header"}, X_Error_Message="Invalid credentials in Authorization header"), "authentication", False, "the token is refused")
s.answers("404-repository", reply(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found"), "not_found", False, "no such repository")
s.answers("404-revision", reply(404, {"error": "Invalid rev id: v9"}, X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id: v9"), "not_found", False, "no such revision")
s.answers("403-gated", reply(403, {"error": "Access to model someone/some-model is restricted and you are not in the authorized list. Visit https://huggingface.co/someone/some-model to ask for access."}, X_Error_Code="GatedRepo", X_Error_Message="Access to model someone/some-model is restricted and you are not in the authorized list."), "authentication", False, "access has to be granted by the owner", also=("access_denied",))
s.answers("429", reply(429, {"error": "We had to rate limit your IP (127.0.0.1). To continue using our service, create a HF account or login to your existing account, and make sure you pass a HF_TOKEN if you're using the API."}, RateLimit='"api";r=0;t=45'), "rate_limit", True, "too many requests; the RateLimit header states the wait", retry_after=45)
s.answers("500", reply(500, {"error": "Internal Error - We're working hard to fix this as soon as possible!"}), "api_temporary", True, "the server failed")
s.answers("504", reply(504, "<html><head><title>504 Gateway Time-out</title></head></html>"), "api_temporary", True, "the gateway waited too long")


def _hub_bad_name() -> None:
    from huggingface_hub import HfApi

    HfApi().hf_hub_download("a/b/c", "config.json")


CASES.add("huggingface_hub/bad-name", "invalid_parameters", False, "the repository's name is not valid", _hub_bad_name)


def _hub_offline() -> None:
    from huggingface_hub import hf_hub_download

    from .world import folder

    hf_hub_download("someone/some-model", "config.json", local_files_only=True, cache_dir=str(folder()))


CASES.add("huggingface_hub/not-cached", "not_found", False, "the file is not in the cache, and looking it up was forbidden", _hub_offline)


def _ollama(url: str) -> None:
    import ollama

    ollama.Client(host=url, timeout=1).chat(model="llama3", messages=[{"role": "user", "content": "hi"}])


s = Service(CASES, "ollama", _ollama)
s.answers("404-model", reply(404, {"error": "model 'llama3' not found"}), "not_found", False, "the model was not pulled")
s.answers("500-memory", reply(500, {"error": "model requires more system memory (48.2 GiB) than is available (7.6 GiB)"}), "api_temporary", True, "a 5xx; memory may be freed", also=("system",))
s.answers("400", reply(400, {"error": "registry.example.com/library/nomic-embed-text:latest does not support chat"}), "invalid_parameters", False, "the model cannot do that")
s.answers("503", reply(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}), "api_temporary", True, "busy for now", also=("rate_limit",))
s.faults("refused")

# -- messaging ----------------------------------------------------------------------------------------------------------


def _twilio(url: str) -> None:
    from twilio.http.http_client import TwilioHttpClient
    from twilio.rest import Client

    client = Client("AC" + "0" * 32, "secret", http_client=TwilioHttpClient(timeout=1))
    client.api.base_url = url
    client.messages.create(to="+15005550001", from_="+15005550006", body="hi")


def _twilio_error(status: int, code: int, message: str, **headers: str) -> Reply:
    return reply(status, {"code": code, "message": message, "more_info": f"https://www.twilio.com/docs/errors/{code}", "status": status}, **headers)


s = Service(CASES, "twilio", _twilio)
s.answers("20003", _twilio_error(401, 20003, "Authenticate"), "authentication", False, "the account's token is refused")
s.answers("21211", _twilio_error(400, 21211, "Invalid 'To' Phone Number: +1500555XXXX"), "invalid_parameters", False, "not a phone number")
s.answers("21610", _twilio_error(400, 21610, "Attempt to send to unsubscribed recipient"), "invalid_parameters", False, "the recipient unsubscribed", also=("access_denied",))
s.answers("20404", _twilio_error(404, 20404, "The requested resource /2010-04-01/Accounts/AC0/Messages.json was not found"), "not_found", False, "no such resource")
s.answers("20429", _twilio_error(429, 20429, "Too Many Requests"), "rate_limit", True, "too many requests for now")
s.answers("63038", _twilio_error(429, 63038, "Account exceeded the 50 daily messages limit"), "quota_exhausted", False, "the messages of the day are used up", also=("rate_limit",))
s.answers("20500", _twilio_error(500, 20500, "An internal server error has occurred"), "api_temporary", True, "the server failed")
s.answers("503", reply(503, "Service Unavailable"), "api_temporary", True, "away for now")


def _sendgrid(url: str) -> None:
    from sendgrid import SendGridAPIClient

    client = SendGridAPIClient("SG.x.y", host=url)
    client.client.timeout = 1
    client.send({"personalizations": [{"to": [{"email": "a@example.com"}]}], "from": {"email": "b@example.com"}, "subject": "s", "content": [{"type": "text/plain", "value": "v"}]})


s = Service(CASES, "sendgrid", _sendgrid)
s.answers("401", reply(401, {"errors": [{"message": "The provided authorization grant is invalid, expired, or revoked", "field": None, "help": None}]}), "authentication", False, "the key is refused")
s.answers("401-credits", reply(401, {"errors": [{"message": "Maximum credits exceeded", "field": None, "help": None}]}), "quota_exhausted", False, "the plan's mails are used up, with status 401", also=("authentication",))
s.answers("403-sender", reply(403, {"errors": [{"message": "The from address does not match a verified Sender Identity. Mail cannot be sent until this error is resolved.", "field": "from", "help": "https://sendgrid.com/docs/for-developers/sending-email/sender-identity/"}]}), "authentication", False, "the sender is not verified", also=("access_denied", "invalid_parameters", "configuration"))
s.answers("400", reply(400, {"errors": [{"message": "Does not contain a valid address.", "field": "personalizations.0.to.0.email", "help": "http://sendgrid.com/docs/API_Reference/Web_API_v3/Mail/errors.html"}]}), "invalid_parameters", False, "not an address")
s.answers("413", reply(413, {"errors": [{"message": "The content of your message exceeds the 30MB limit.", "field": None, "help": None}]}), "invalid_parameters", False, "the mail is too large")
s.answers("429", reply(429, {"errors": [{"message": "too many requests", "field": None, "help": None}]}, X_RateLimit_Limit="600", X_RateLimit_Remaining="0", X_RateLimit_Reset=str(epoch(30))), "rate_limit", True, "too many requests; the header has the end of the window", retry_after=30)
s.answers("503", reply(503, {"errors": [{"message": "service unavailable", "field": None, "help": None}]}), "api_temporary", True, "away for now")



def _telegram(url: str) -> None:
    import telegram
    from telegram.request import HTTPXRequest

    async def run() -> None:
        limits = {"read_timeout": 0.5, "connect_timeout": 0.5, "pool_timeout": 0.5}
        bot = telegram.Bot("1:x", base_url=url + "/bot", request=HTTPXRequest(**limits), get_updates_request=HTTPXRequest(**limits))
        await bot.request.initialize()
        await bot.send_message(1, "hi")

    asyncio.run(run())


def _telegram_error(code: int, description: str, **parameters: int) -> Reply:
    return reply(code, {"ok": False, "error_code": code, "description": description} | ({"parameters": parameters} if parameters else {}))


s = Service(CASES, "python-telegram-bot", _telegram)
s.answers("401", _telegram_error(401, "Unauthorized"), "authentication", False, "the token is refused")
s.answers("404-token", _telegram_error(404, "Not Found"), "authentication", False, "the service answers so to a malformed token", also=("not_found",))
s.answers("403-blocked", _telegram_error(403, "Forbidden: bot was blocked by the user"), "access_denied", False, "the user blocked the bot", also=("authentication",))
s.answers("400-chat", _telegram_error(400, "Bad Request: chat not found"), "not_found", False, "no such chat", also=("invalid_parameters",))
s.answers("400-unchanged", _telegram_error(400, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"), "invalid_parameters", False, "nothing to change")
s.answers("429", _telegram_error(429, "Too Many Requests: retry after 17", retry_after=17), "rate_limit", True, "flood control with a stated wait", retry_after=17)
s.answers("400-migrated", _telegram_error(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-100123), "invalid_parameters", False, "the chat has another id now", also=("not_found",))
s.answers("409", _telegram_error(409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"), "invalid_parameters", False, "two instances run with one token", also=("configuration", "api_temporary", "integrity"))
s.answers("502", _telegram_error(502, "Bad Gateway"), "api_temporary", True, "the gateway failed", also=("network",))
s.answers("413", _telegram_error(413, "Request Entity Too Large"), "invalid_parameters", False, "the message is too large")
s.faults("refused", "timeout", "html")


def _discord(url: str) -> None:
    import discord
    from discord.http import Route

    Route.BASE = url

    async def run() -> None:
        client = discord.Client(intents=discord.Intents.none(), max_ratelimit_timeout=30.0)
        try:
            await client.login("x.y.z")
        finally:
            await client.close()

    asyncio.run(run())


def _discord_fetch(url: str) -> None:
    import discord
    from discord.http import Route

    Route.BASE = url

    async def run() -> None:
        client = discord.Client(intents=discord.Intents.none(), max_ratelimit_timeout=30.0)
        try:
            await client.login("x.y.z")
            await client.fetch_channel(1)
        finally:
            await client.close()

    asyncio.run(run())


_ME = reply(200, {"id": "1", "username": "bot", "discriminator": "0", "avatar": None, "bot": True})
_DISCORD_APP = reply(200, {"id": "1", "name": "app", "description": "", "icon": None, "bot_public": True, "bot_require_code_grant": False, "verify_key": "x", "owner": {"id": "2", "username": "u", "discriminator": "0", "avatar": None}, "flags": 0})
CASES_BEFORE = (_ME, _DISCORD_APP)
Service(CASES, "discord.py", _discord).answers("401", reply(401, {"message": "401: Unauthorized", "code": 0}), "authentication", False, "the token is refused")
s = Service(CASES, "discord.py", _discord_fetch)
s.answers("403-50001", (*CASES_BEFORE, reply(403, {"message": "Missing Access", "code": 50001})), "authentication", False, "the bot may not see the channel", also=("access_denied",))
s.answers("404-10003", (*CASES_BEFORE, reply(404, {"message": "Unknown Channel", "code": 10003})), "not_found", False, "no such channel")
s.answers("400-50035", (*CASES_BEFORE, reply(400, {"message": "Invalid Form Body", "code": 50035, "errors": {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}}})), "invalid_parameters", False, "the message is too long")
s.answers("429", (*CASES_BEFORE, reply(429, {"message": "You are being rate limited.", "retry_after": 64.57, "global": False}, Via="1.1 google", X_RateLimit_Scope="user", X_RateLimit_Bucket="b", X_RateLimit_Limit="5", X_RateLimit_Remaining="0", X_RateLimit_Reset_After="64.57", X_RateLimit_Reset="1763455555.0", Retry_After="65")), "rate_limit", True, "the wait is stated and longer than the client waits itself", retry_after=64.57)
s.answers("429-cloudflare", (*CASES_BEFORE, reply(429, "<!DOCTYPE html><html><head><title>Access denied | discord.com used Cloudflare to restrict access</title></head><body>Error 1015: You are being rate limited</body></html>")), "rate_limit", True, "the proxy in front limits the address")

# -- code hosting and issue trackers --------------------------------------------------------------------------------------


def _github(url: str) -> None:
    import github

    github.Github(base_url=url, auth=github.Auth.Token(TOKEN), retry=None, timeout=1, seconds_between_requests=0).get_repo("a/b")


def _gh(status: int, message: str, more: dict[str, Any] | None = None, **headers: str) -> Reply:
    return reply(status, {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)} | (more or {}), **headers)


s = Service(CASES, "PyGithub", _github)
s.answers("401", _gh(401, "Bad credentials"), "authentication", False, "the token is refused")
s.answers("403-primary", _gh(403, "API rate limit exceeded for user ID 583231. If you reach out to GitHub Support for help, please include the request ID.", x_ratelimit_limit="5000", x_ratelimit_remaining="0", x_ratelimit_reset=str(epoch(1800)), x_ratelimit_resource="core"), "rate_limit", True, "the hourly limit; the header has its end", retry_after=1800)
s.answers("403-secondary", _gh(403, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. If you reach out to GitHub Support for help, please include the request ID.", Retry_After="60"), "rate_limit", True, "the secondary limit with a stated wait", retry_after=60)
s.answers("403-scope", _gh(403, "Resource not accessible by personal access token"), "authentication", False, "the token lacks the right")
s.answers("404", _gh(404, "Not Found"), "not_found", False, "no such repository")
s.answers("422", _gh(422, "Validation Failed", {"errors": [{"resource": "Issue", "field": "title", "code": "missing_field"}]}), "invalid_parameters", False, "a field is missing")
s.answers("409", _gh(409, "Git Repository is empty."), "invalid_parameters", False, "the repository has no commits", also=("integrity", "not_found"))
s.answers("451", _gh(451, "Repository access blocked", {"block": {"reason": "dmca"}}), "access_denied", False, "blocked for legal reasons", also=("not_found", "authentication"))
s.answers("502", reply(502, "<html><head><title>Unicorn! &middot; GitHub</title></head><body>This page is taking too long to load.</body></html>"), "api_temporary", True, "the server was too slow")
s.answers("500", _gh(500, "Server Error"), "api_temporary", True, "the server failed")


def _gitlab(url: str) -> None:
    import gitlab

    gitlab.Gitlab(url, private_token=TOKEN, timeout=1).projects.get(7, obey_rate_limit=False, max_retries=0)


s = Service(CASES, "python-gitlab", _gitlab)
s.answers("401", reply(401, {"message": "401 Unauthorized"}), "authentication", False, "the token is refused")
s.answers("403-scope", reply(403, {"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api read_api"}), "authentication", False, "the token lacks a scope", also=("access_denied",))
s.answers("404", reply(404, {"message": "404 Project Not Found"}), "not_found", False, "no such project")
s.answers("429", reply(429, "Retry later\n", Retry_After="58", RateLimit_Limit="600", RateLimit_Remaining="0"), "rate_limit", True, "too many requests; the client drops the stated wait")
s.answers("400", reply(400, {"message": {"name": ["is too long (maximum is 255 characters)"]}}), "invalid_parameters", False, "the name is too long")
s.answers("409", reply(409, {"message": "Branch cannot be merged: SHA does not match HEAD of source branch"}), "invalid_parameters", False, "the branch moved on", also=("integrity",))
s.answers("503", reply(503, "<html><title>GitLab is not responding (503)</title></html>"), "api_temporary", True, "away for now")
s.faults("html")


def _jira(url: str) -> None:
    import jira

    jira.JIRA(server=url, basic_auth=("u", "p"), max_retries=0, get_server_info=False, timeout=1).issue("AB-1")


s = Service(CASES, "jira", _jira)
s.answers("401", reply(401, "Basic authentication with passwords is deprecated.  For more information, see: https://developer.atlassian.com/cloud/confluence/deprecation-notice-basic-auth/", X_Seraph_LoginReason="AUTHENTICATED_FAILED"), "authentication", False, "the password is refused")
s.answers("403-captcha", reply(403, {"errorMessages": ["CAPTCHA_CHALLENGE; login-url=https://jira.example.com/login.jsp"], "errors": {}}, X_Seraph_LoginReason="AUTHENTICATION_DENIED"), "authentication", False, "the account has to solve a captcha", also=("access_denied",))
s.answers("404", reply(404, {"errorMessages": ["Issue does not exist or you do not have permission to see it."], "errors": {}}), "not_found", False, "no such issue")
s.answers("400", reply(400, {"errorMessages": [], "errors": {"customfield_10010": "Field 'customfield_10010' cannot be set. It is not on the appropriate screen, or unknown."}}), "invalid_parameters", False, "a field cannot be set")
s.answers("429", reply(429, {"errorMessages": ["Rate limit exceeded."]}, Retry_After="35", X_RateLimit_NearLimit="true", RateLimit_Reason="jira-burst-based"), "rate_limit", True, "a stated wait", retry_after=35)
s.answers("503", reply(503, "<html><body>Jira is starting up</body></html>"), "api_temporary", True, "starting up")


def _notion(url: str) -> None:
    import notion_client

    notion_client.Client(auth=TOKEN, base_url=url, timeout_ms=700, retry=False).pages.retrieve("p")


def _notion_error(status: int, code: str, message: str, **headers: str) -> Reply:
    return reply(status, {"object": "error", "status": status, "code": code, "message": message, "request_id": "00000000-0000-0000-0000-000000000000"}, **headers)


s = Service(CASES, "notion-client", _notion)
s.answers("401", _notion_error(401, "unauthorized", "API token is invalid."), "authentication", False, "the token is refused")
s.answers("403", _notion_error(403, "restricted_resource", "Insufficient permissions for this endpoint."), "authentication", False, "the integration lacks the right", also=("access_denied",))
s.answers("404", _notion_error(404, "object_not_found", "Could not find page with ID: 0. Make sure the relevant pages and databases are shared with your integration."), "not_found", False, "no such page, or not shared")
s.answers("429", _notion_error(429, "rate_limited", "You have been rate limited. Please try again in a few minutes.", Retry_After="11"), "rate_limit", True, "a stated wait", retry_after=11)
s.answers("400", _notion_error(400, "validation_error", "body failed validation: body.children[0].paragraph.rich_text[0].text.content.length should be ≤ `2000`, instead was `2400`."), "invalid_parameters", False, "the text is too long")
s.answers("409", _notion_error(409, "conflict_error", "Conflict occurred while saving. Please try again."), "database_busy", True, "a collision of writes; the service asks to try again", also=("integrity", "api_temporary"))
s.answers("503", _notion_error(503, "service_unavailable", "Notion is unavailable, please try again later."), "api_temporary", True, "away for now")
s.faults("timeout")

# -- business software ------------------------------------------------------------------------------------------------------


def _hubspot(url: str) -> None:
    import hubspot
    from urllib3.util.retry import Retry

    client = hubspot.HubSpot(access_token=TOKEN, retry=Retry(0, raise_on_status=False))
    api = client.crm.contacts.basic_api
    api.api_client.configuration.host = url
    api.get_by_id("1", _request_timeout=1)


def _hub_error(status: int, message: str, **more: Any) -> Reply:
    return reply(status, {"status": "error", "message": message, "correlationId": "00000000-0000-0000-0000-000000000000"} | more)


s = Service(CASES, "hubspot", _hubspot)
s.answers("401", _hub_error(401, "Authentication credentials not found. This API supports OAuth 2.0 authentication and you can find more details at https://developers.hubspot.com/docs/methods/auth/oauth-overview", category="INVALID_AUTHENTICATION"), "authentication", False, "the token is refused")
s.answers("401-expired", _hub_error(401, "The OAuth token used to make this call expired 3 hour(s) ago.", category="EXPIRED_AUTHENTICATION", context={"expire time": ["2026-11-18T05:20:52.000Z"]}), "authentication", False, "the token is too old")
s.answers("403-scopes", _hub_error(403, "This app hasn't been granted all required scopes to make this call. Read more about required scopes here: https://developers.hubspot.com/scopes.", category="MISSING_SCOPES"), "authentication", False, "a scope is missing", also=("access_denied",))
s.answers("404", _hub_error(404, "Object not found.  objectId are usually numeric.", category="OBJECT_NOT_FOUND"), "not_found", False, "no such contact")
s.answers("409", _hub_error(409, "Contact already exists. Existing ID: 101", category="CONFLICT"), "integrity", False, "the contact exists", also=("invalid_parameters",))
s.answers("429-second", _hub_error(429, "You have reached your ten_secondly_rolling limit.", errorType="RATE_LIMIT", policyName="TEN_SECONDLY_ROLLING"), "rate_limit", True, "a limit per ten seconds passes")
s.answers("429-day", _hub_error(429, "You have reached your daily limit.", errorType="RATE_LIMIT", policyName="DAILY"), "quota_exhausted", False, "the calls of the day are used up", also=("rate_limit",))
s.answers("400", _hub_error(400, 'Property values were not valid: [{"isValid":false,"message":"Email address x is invalid","error":"INVALID_EMAIL","name":"email"}]', category="VALIDATION_ERROR"), "invalid_parameters", False, "a property is not valid")
s.answers("502", reply(502, "Bad Gateway"), "api_temporary", True, "the gateway failed")



def _tweepy(url: str) -> None:
    import tweepy

    client = tweepy.Client(bearer_token=TOKEN)
    client.session = redirected(url)
    client.get_user(username="x")


def _x(status: int, title: str, detail: str, kind: str = "about:blank", **more: Any) -> Reply:
    headers = more.pop("headers", {})
    return reply(status, {"title": title, "detail": detail, "type": kind, "status": status} | more, **headers)


s = Service(CASES, "tweepy", _tweepy)
s.answers("401", _x(401, "Unauthorized", "Unauthorized"), "authentication", False, "the token is refused")
s.answers("403", _x(403, "Forbidden", "When authenticating requests to the Twitter API v2 endpoints, you must use keys and tokens from a Twitter developer App that is attached to a Project. You can create a project via the developer portal.", reason="client-not-enrolled"), "authentication", False, "the app is not enrolled", also=("access_denied",))
s.answers("429-window", _x(429, "Too Many Requests", "Too Many Requests", headers={"x_rate_limit_limit": "300", "x_rate_limit_remaining": "0", "x_rate_limit_reset": str(epoch(600))}), "rate_limit", True, "a window of fifteen minutes; the header has its end", retry_after=600)
s.answers("429-month", _x(429, "UsageCapExceeded", "Usage cap exceeded: Monthly product cap", "https://api.twitter.com/2/problems/usage-capped", period="Monthly", scope="Product", account_id=1), "quota_exhausted", False, "the posts of the month are used up")
s.answers("400", reply(400, {"errors": [{"parameters": {"username": ["x y"]}, "message": "The `username` query parameter value [x y] does not match ^[A-Za-z0-9_]{1,15}$"}], "title": "Invalid Request", "detail": "One or more parameters to your request was invalid.", "type": "https://api.twitter.com/2/problems/invalid-request"}), "invalid_parameters", False, "not a user name")
s.answers("404", _x(404, "Not Found", "Not Found"), "not_found", False, "no such user")
s.answers("503", _x(503, "Service Unavailable", "Service Unavailable"), "api_temporary", True, "away for now")


def _praw(url: str) -> None:
    import praw

    reddit = praw.Reddit(client_id="i", client_secret="s", user_agent="outlast test", reddit_url=url, oauth_url=url, check_for_updates=False, timeout=1, requestor_kwargs={"session": redirected(url)})
    reddit.subreddit("python").id  # noqa: B018


_REDDIT_TOKEN = reply(200, {"access_token": "x", "token_type": "bearer", "expires_in": 3600, "scope": "*"})
s = Service(CASES, "praw", _praw)
s.answers("401-client", reply(401, {"message": "Unauthorized", "error": 401}), "authentication", False, "the client's secret is refused")
s.answers("grant", reply(200, {"error": "invalid_grant"}), "authentication", False, "the password is refused, with status 200")
s.answers("403-private", (_REDDIT_TOKEN, reply(403, {"reason": "private", "message": "Forbidden", "error": 403})), "authentication", False, "a private community", also=("access_denied",))
s.answers("404-banned", (_REDDIT_TOKEN, reply(404, {"reason": "banned", "message": "Not Found", "error": 404})), "not_found", False, "the community was closed")
s.answers("429", (_REDDIT_TOKEN, reply(429, {"message": "Too Many Requests", "error": 429}, Retry_After="23", x_ratelimit_remaining="0", x_ratelimit_reset="23", x_ratelimit_used="100")), "rate_limit", True, "a stated wait", retry_after=23)
s.answers("503", (_REDDIT_TOKEN, reply(503, {"message": "Service Unavailable", "error": 503})), "api_temporary", True, "away for now")
s.answers("html", (_REDDIT_TOKEN, reply(200, "<html>reddit is down</html>")), "data", False, "not the promised JSON", also=("api_temporary",))
s.faults("refused")


def _salesforce(url: str) -> None:
    from simple_salesforce import Salesforce

    Salesforce(instance="x.my.salesforce.com", session_id="s", session=redirected(url)).query("SELECT Id FROM Account")


def _sf(status: int, code: str, message: str) -> Reply:
    return reply(status, [{"message": message, "errorCode": code}])


s = Service(CASES, "simple-salesforce", _salesforce)
s.answers("session", _sf(401, "INVALID_SESSION_ID", "Session expired or invalid"), "authentication", False, "the session ended")
s.answers("request-limit", _sf(403, "REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded."), "quota_exhausted", False, "the calls of the day are used up", also=("rate_limit",))
s.answers("row-lock", _sf(400, "UNABLE_TO_LOCK_ROW", "unable to obtain exclusive access to this record or 1 records: 0015000000xyz"), "database_busy", True, "another transaction holds the row")
s.answers("query", _sf(400, "MALFORMED_QUERY", "\nSELECT Id FORM Account\n          ^\nERROR at Row:1:Column:11\nunexpected token: 'FORM'"), "invalid_parameters", False, "the query is wrong")
s.answers("field", _sf(400, "INVALID_FIELD", "\nSELECT Nme FROM Account\n       ^\nERROR at Row:1:Column:8\nNo such column 'Nme' on entity 'Account'."), "invalid_parameters", False, "no such column", also=("not_found",))
s.answers("duplicate", _sf(400, "DUPLICATE_VALUE", "duplicate value found: Ext__c duplicates value on record with id: 0015000000xyz"), "integrity", False, "a unique field is taken", also=("invalid_parameters",))
s.answers("404", _sf(404, "NOT_FOUND", "The requested resource does not exist"), "not_found", False, "no such object")
s.answers("503", _sf(503, "SERVER_UNAVAILABLE", "Server unavailable: too many requests waiting for connections"), "api_temporary", True, "away for now", also=("rate_limit",))
s.answers("500", _sf(500, "UNKNOWN_EXCEPTION", "An unexpected error occurred. Please include this ErrorId if you contact support: 1234"), "api_temporary", True, "the server failed")


def _salesforce_login(url: str) -> None:
    from simple_salesforce import Salesforce

    Salesforce(username="u", password="p", security_token="t", session=redirected(url))


Service(CASES, "simple-salesforce", _salesforce_login).answers("login", reply(500, '<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:sf="urn:fault.partner.soap.sforce.com"><soapenv:Body><soapenv:Fault><faultcode>sf:INVALID_LOGIN</faultcode><faultstring>INVALID_LOGIN: Invalid username, password, security token; or user locked out.</faultstring><detail><sf:LoginFault><sf:exceptionCode>INVALID_LOGIN</sf:exceptionCode><sf:exceptionMessage>Invalid username, password, security token; or user locked out.</sf:exceptionMessage></sf:LoginFault></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>'), "authentication", False, "the password is refused")


def _plaid(url: str) -> None:
    import plaid
    from plaid.api import plaid_api
    from plaid.model.accounts_get_request import AccountsGetRequest

    api = plaid_api.PlaidApi(plaid.ApiClient(plaid.Configuration(host=url, api_key={"clientId": "c", "secret": "s"})))
    api.accounts_get(AccountsGetRequest(access_token="a"), _request_timeout=1)


def _pl(status: int, kind: str, code: str, message: str) -> Reply:
    return reply(status, {"display_message": None, "documentation_url": "https://plaid.com/docs/errors/", "error_code": code, "error_message": message, "error_type": kind, "request_id": "r", "suggested_action": None})


s = Service(CASES, "plaid", _plaid)
s.answers("login-required", _pl(400, "ITEM_ERROR", "ITEM_LOGIN_REQUIRED", "the login details of this item have changed (credentials, MFA, or required user action) and a user login is required to update this information. use Link's update mode to restore the item to a good state"), "authentication", False, "the user has to log in at the bank again", also=("invalid_parameters",))
s.answers("keys", _pl(400, "INVALID_INPUT", "INVALID_API_KEYS", "invalid client_id or secret provided"), "authentication", False, "the keys are refused, with status 400")
s.answers("rate", _pl(429, "RATE_LIMIT_EXCEEDED", "ACCOUNTS_LIMIT", "rate limit exceeded for attempts to access this item. please try again later"), "rate_limit", True, "too many requests for now")
s.answers("institution-down", _pl(400, "INSTITUTION_ERROR", "INSTITUTION_DOWN", "this institution is not currently responding to this request. please try again soon"), "api_temporary", True, "the bank is away for now, with status 400")
s.answers("not-ready", _pl(400, "ITEM_ERROR", "PRODUCT_NOT_READY", "the requested product is not yet ready. please provide a webhook or try the request again later"), "api_temporary", True, "the data are still being fetched, with status 400")
s.answers("missing", _pl(400, "INVALID_REQUEST", "MISSING_FIELDS", "the following required fields are missing: access_token"), "invalid_parameters", False, "a field is missing")
s.answers("internal", _pl(500, "API_ERROR", "INTERNAL_SERVER_ERROR", "an unexpected error occurred"), "api_temporary", True, "the server failed")



def _mailchimp(url: str) -> None:
    import mailchimp_marketing

    client = mailchimp_marketing.Client({"api_key": "k-us1", "server": "us1"})
    client.api_client.host = url
    client.lists.get_all_lists()


def _mc(status: int, title: str, detail: str) -> Reply:
    return reply(status, {"type": "https://mailchimp.com/developer/marketing/docs/errors/", "title": title, "status": status, "detail": detail, "instance": "i"}, Content_Type="application/problem+json; charset=utf-8")


s = Service(CASES, "mailchimp_marketing", _mailchimp)
s.answers("401", _mc(401, "API Key Invalid", "Your API key may be invalid, or you've attempted to access the wrong datacenter."), "authentication", False, "the key is refused")
s.answers("400-exists", _mc(400, "Member Exists", "a@example.com is already a list member. Use PUT to insert or update list members."), "integrity", False, "the member exists", also=("invalid_parameters",))
s.answers("400-compliance", _mc(400, "Member In Compliance State", "a@example.com is in a compliance state due to unsubscribe, bounce, or compliance review and cannot be subscribed."), "invalid_parameters", False, "the member may not be subscribed")
s.answers("404", _mc(404, "Resource Not Found", "The requested resource could not be found."), "not_found", False, "no such list")
s.answers("429", _mc(429, "Too Many Requests", "You have exceeded the limit of 10 simultaneous connections."), "rate_limit", True, "too many connections at once")
s.answers("500", _mc(500, "Internal Server Error", "An unexpected internal error has occurred. Please contact Support for more information."), "api_temporary", True, "the server failed")


def _dropbox(url: str) -> None:
    import dropbox

    dropbox.Dropbox(TOKEN, session=redirected(url), max_retries_on_error=0, max_retries_on_rate_limit=0).files_get_metadata("/x")


s = Service(CASES, "dropbox", _dropbox)
s.answers("401", reply(401, {"error_summary": "expired_access_token/...", "error": {".tag": "expired_access_token"}}), "authentication", False, "the token is too old")
s.answers("409-path", reply(409, {"error_summary": "path/not_found/..", "error": {".tag": "path", "path": {".tag": "not_found"}}}), "not_found", False, "no such file, with status 409")
s.answers("429", reply(429, {"error_summary": "too_many_requests/..", "error": {"reason": {".tag": "too_many_requests"}, "retry_after": 15}}, Retry_After="15"), "rate_limit", True, "a stated wait", retry_after=15)
s.answers("400", reply(400, 'Error in call to API function "files/get_metadata": request body: path: \'x\' did not match pattern \'(/(.|[\\r\\n])*|id:.*)|(rev:[0-9a-f]{9,})|(ns:[0-9]+(/.*)?)\''), "invalid_parameters", False, "not a path")
s.answers("500", reply(500, "Internal Server Error"), "api_temporary", True, "the server failed")
s.answers("403-scope", reply(401, {"error_summary": "missing_scope/..", "error": {".tag": "missing_scope", "required_scope": "files.metadata.read"}}), "authentication", False, "a scope is missing")


def _ccxt(url: str) -> None:
    import ccxt

    exchange = ccxt.kraken({"apiKey": "k", "secret": "c2VjcmV0", "timeout": 700, "enableRateLimit": False})
    exchange.urls["api"] = {"public": url, "private": url, "zendesk": url}
    exchange.fetch_balance()


def _kraken(*errors: str) -> Reply:
    return reply(200, {"error": list(errors)})


s = Service(CASES, "ccxt", _ccxt)
s.answers("nonce", _kraken("EAPI:Invalid nonce"), "api_temporary", True, "a number used twice or out of order; the next call has a newer one", also=("authentication", "network", "invalid_parameters"))
s.answers("key", _kraken("EAPI:Invalid key"), "authentication", False, "the key is refused, with status 200")
s.answers("rate", _kraken("EAPI:Rate limit exceeded"), "rate_limit", True, "too many requests, with status 200")
s.answers("funds", _kraken("EOrder:Insufficient funds"), "invalid_parameters", False, "not enough money on the account", also=("quota_exhausted",))
s.answers("unavailable", _kraken("EService:Unavailable"), "api_temporary", True, "the exchange is away for now")
s.answers("permission", _kraken("EGeneral:Permission denied"), "authentication", False, "the key lacks the right", also=("access_denied",))
s.answers("pair", _kraken("EQuery:Unknown asset pair"), "invalid_parameters", False, "no such pair", also=("not_found",))
s.answers("502", reply(502, "<html>502 Bad Gateway</html>"), "api_temporary", True, "the gateway failed")
s.answers("429", reply(429, "error code: 1015"), "rate_limit", True, "the proxy in front limits the address")
s.faults("timeout", "refused")
