"""Infrastructure behind HTTP: object stores, search, secrets, clusters, SOAP and GraphQL, and HTTP clients of their own kind."""
# A case is one line, so that cases can be compared.
# fmt: off

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from .record_http_sdks import redirected
from .world import Cases, Reply, Service, date, file, http, refused, reply

CASES = Cases()


def _port(url: str) -> int:
    return urlsplit(url).port or 80


# -- clusters, containers, secrets ---------------------------------------------------------------------------------------


def _kubernetes(url: str) -> None:
    from kubernetes import client

    configuration = client.Configuration(host=url, api_key={"authorization": "Bearer x"})
    configuration.retries = False
    client.CoreV1Api(client.ApiClient(configuration)).read_namespaced_pod("web-0", "default", _request_timeout=1)


def _status(code: int, reason: str, message: str, details: dict[str, Any] | None = None, **headers: str) -> Reply:
    return reply(code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": details or {}, "code": code}, **headers)


s = Service(CASES, "kubernetes", _kubernetes)
s.answers("401", _status(401, "Unauthorized", "Unauthorized"), "authentication", False, "the token is refused")
s.answers("403", _status(403, "Forbidden", 'pods "web-0" is forbidden: User "system:serviceaccount:default:default" cannot get resource "pods" in API group "" in the namespace "default"'), "authentication", False, "the account lacks the right", also=("access_denied",))
s.answers("403-quota", _status(403, "Forbidden", 'pods "web-0" is forbidden: exceeded quota: compute-resources, requested: pods=1, used: pods=10, limited: pods=10'), "quota_exhausted", False, "the namespace's quota is used up", also=("authentication", "access_denied"))
s.answers("404", _status(404, "NotFound", 'pods "web-0" not found', {"name": "web-0", "kind": "pods"}), "not_found", False, "no such pod")
s.answers("409-exists", _status(409, "AlreadyExists", 'pods "web-0" already exists', {"name": "web-0", "kind": "pods"}), "integrity", False, "the name is taken", also=("invalid_parameters",))
s.answers("409-version", _status(409, "Conflict", 'Operation cannot be fulfilled on deployments.apps "web": the object has been modified; please apply your changes to the latest version and try again'), "integrity", False, "the same old version would be sent again", also=("invalid_parameters", "database_busy"))
s.answers("410-expired", _status(410, "Expired", "too old resource version: 1000 (2000)"), "not_found", False, "the version is no longer kept", also=("invalid_parameters",))
s.answers("422", _status(422, "Invalid", 'Pod "web-0" is invalid: spec.containers: Required value'), "invalid_parameters", False, "a value is missing")
s.answers("429", _status(429, "TooManyRequests", "Too many requests, please try again later.", {"retryAfterSeconds": 5}, Retry_After="5"), "rate_limit", True, "a stated wait", retry_after=5)
s.answers("500-etcd", _status(500, "InternalError", "etcdserver: request timed out"), "api_temporary", True, "the store behind was too slow")
s.answers("503-refused", reply(503, 'no endpoints available for service "webhook"'), "api_temporary", True, "no instance is up")


def _kubernetes_config() -> None:
    from kubernetes import config

    config.load_kube_config(file("config", b"apiVersion: v1\nkind: Config\nclusters: []\n"))


CASES.add("kubernetes/config", "configuration", False, "the file of settings has no context", _kubernetes_config, also=("data",))


def _kubernetes_incluster() -> None:
    import os

    from kubernetes import config

    os.environ.pop("KUBERNETES_SERVICE_HOST", None)
    config.load_incluster_config()


CASES.add("kubernetes/in-cluster", "configuration", False, "the program does not run inside a cluster", _kubernetes_incluster)


def _docker(url: str) -> None:
    import docker

    docker.DockerClient(base_url=url.replace("http://", "tcp://"), version="1.43", timeout=1).containers.get("web")


s = Service(CASES, "docker", _docker)
s.answers("404", reply(404, {"message": "No such container: web"}), "not_found", False, "no such container")
s.answers("409", reply(409, {"message": 'Conflict. The container name "/web" is already in use by container "0f1e". You have to remove (or rename) that container to be able to reuse that name.'}), "integrity", False, "the name is taken", also=("invalid_parameters",))
s.answers("400", reply(400, {"message": "invalid reference format"}), "invalid_parameters", False, "not a name of an image")
s.answers("500-space", reply(500, {"message": "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"}), "system", True, "the disk is full; it heals when space is freed", also=("api_temporary",))
s.answers("500-registry", reply(500, {"message": 'Get "https://registry.example.com/v2/": net/http: TLS handshake timeout'}), "api_temporary", True, "the registry was too slow", also=("network",))
s.answers("429", reply(429, {"message": "toomanyrequests: You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"}), "rate_limit", True, "the limit of pulls", also=("quota_exhausted",))


def _docker_image(url: str) -> None:
    import docker

    docker.DockerClient(base_url=url.replace("http://", "tcp://"), version="1.43", timeout=1).images.get("nope")


Service(CASES, "docker", _docker_image).answers("404-image", reply(404, {"message": "No such image: nope:latest"}), "not_found", False, "no such image")


def _docker_auto() -> None:
    import docker

    docker.DockerClient(base_url=f"tcp://127.0.0.1:{refused()}", timeout=1)


CASES.add("docker/refused", "network", True, "the daemon does not listen", _docker_auto)


def _hvac(url: str) -> None:
    import hvac

    hvac.Client(url=url, token="t", timeout=1).secrets.kv.v2.read_secret_version("app", raise_on_deleted_version=True)


s = Service(CASES, "hvac", _hvac)
s.answers("403", reply(403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}), "authentication", False, "the token lacks the right", also=("access_denied",))
s.answers("403-token", reply(403, {"errors": ["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"]}), "authentication", False, "the token is refused")
s.answers("404", reply(404, {"errors": []}), "not_found", False, "no such secret")
s.answers("400", reply(400, {"errors": ["missing client token"]}), "authentication", False, "no token was sent, with status 400", also=("invalid_parameters", "configuration"))
s.answers("503-sealed", reply(503, {"errors": ["Vault is sealed"]}), "api_temporary", True, "the vault has to be unsealed; a 5xx")
s.answers("500", reply(500, {"errors": ["1 error occurred:\n\t* local node not active but active cluster node not found\n\n"]}), "api_temporary", True, "a leader is being elected")
s.answers("429", reply(429, {"errors": ['request path "secret/data/app": rate limit quota exceeded']}, Retry_After="3"), "rate_limit", True, "a stated wait", retry_after=3)
s.answers("412", reply(412, {"errors": ["required index state not present"]}), "api_temporary", True, "the replica is behind; the documentation says to retry", also=("invalid_parameters", "database_busy"))
s.answers("502", reply(502, "<html>Bad Gateway</html>"), "api_temporary", True, "the gateway failed")


def _consul(url: str) -> None:
    import consul

    consul.Consul(host="127.0.0.1", port=_port(url)).kv.get("key")


s = Service(CASES, "python-consul", _consul)
s.answers("500", reply(500, "No cluster leader"), "api_temporary", True, "a leader is being elected")
s.answers("403", reply(403, "Permission denied: token with AccessorID '00000000-0000-0000-0000-000000000002' lacks permission 'key:read' on \"key\""), "authentication", False, "the token lacks the right", also=("access_denied",))
s.answers("400", reply(400, "Missing key name"), "invalid_parameters", False, "no key was named")
s.answers("429", reply(429, "rate limit exceeded, try again later or against a different server"), "rate_limit", True, "too many requests for now")


# -- object stores and files -----------------------------------------------------------------------------------------------


def _minio(url: str) -> None:
    import urllib3
    from minio import Minio

    pool = urllib3.PoolManager(retries=False, timeout=1)
    Minio(urlsplit(url).netloc, access_key="a", secret_key="s" * 8, secure=False, region="us-east-1", http_client=pool).get_object("bucket", "key")


def _s3(status: int, code: str, message: str, **headers: str) -> Reply:
    return reply(status, f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message><Key>key</Key><BucketName>bucket</BucketName><Resource>/bucket/key</Resource><RequestId>1</RequestId><HostId>h</HostId></Error>', Content_Type="application/xml", **headers)


s = Service(CASES, "minio", _minio)
s.answers("NoSuchKey", _s3(404, "NoSuchKey", "The specified key does not exist."), "not_found", False, "no such object")
s.answers("NoSuchBucket", _s3(404, "NoSuchBucket", "The specified bucket does not exist"), "not_found", False, "no such bucket")
s.answers("AccessDenied", _s3(403, "AccessDenied", "Access Denied."), "authentication", False, "the key lacks the right")
s.answers("SignatureDoesNotMatch", _s3(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method."), "authentication", False, "the secret is wrong")
s.answers("RequestTimeTooSkewed", _s3(403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large."), "authentication", False, "this machine's clock is wrong", also=("configuration", "system"))
s.answers("SlowDown", _s3(503, "SlowDown", "Resource requested is unreadable, please reduce your request rate"), "rate_limit", True, "the server asks for fewer requests", also=("api_temporary",))
s.answers("InternalError", _s3(500, "InternalError", "We encountered an internal error, please try again."), "api_temporary", True, "the server failed")
s.answers("StorageFull", _s3(507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold. Please delete a few objects to proceed."), "system", True, "the server's disk is full", also=("api_temporary", "quota_exhausted"))
s.answers("BucketExists", _s3(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it."), "integrity", False, "the bucket exists", also=("invalid_parameters",))
s.answers("RequestTimeout", _s3(400, "RequestTimeout", "Your socket connection to the server was not read from or written to within the timeout period."), "network", True, "the body came too slowly, with status 400", also=("api_temporary",))
s.answers("html", reply(404, "<html><body>Not here</body></html>"), "not_found", False, "a proxy answers 404 without the service's body", also=("data",))


def _minio_name() -> None:
    from minio import Minio

    Minio("127.0.0.1:9", access_key="a", secret_key="s").bucket_exists("a")


CASES.add("minio/bucket-name", "invalid_parameters", False, "not a name of a bucket", _minio_name)


def _box(url: str) -> None:
    import box_sdk_gen as box
    from box_sdk_gen.networking import BaseUrls, NetworkSession

    network = NetworkSession(base_urls=BaseUrls(base_url=url, upload_url=url, oauth_2_url=url), retry_strategy=box.BoxRetryStrategy(max_attempts=1, retry_base_interval=0))
    box.BoxClient(auth=box.BoxDeveloperTokenAuth(token="t"), network_session=network).files.get_file_by_id("1")


def _bx(status: int, code: str, message: str, **headers: str) -> Reply:
    return reply(status, {"type": "error", "status": status, "code": code, "context_info": {}, "help_url": "http://developers.box.com/docs/#errors", "message": message, "request_id": "r1"}, **headers)


s = Service(CASES, "box_sdk_gen", _box)
s.answers("404", _bx(404, "not_found", "Not Found"), "not_found", False, "no such file")
s.answers("403", _bx(403, "access_denied_insufficient_permissions", "Access denied - insufficient permission"), "authentication", False, "the token lacks the right", also=("access_denied",))
s.answers("409", _bx(409, "item_name_in_use", "Item with the same name already exists"), "integrity", False, "the name is taken", also=("invalid_parameters",))
s.answers("429", _bx(429, "rate_limit_exceeded", "Request rate limit exceeded, please try again later", Retry_After="100"), "rate_limit", True, "a stated wait", retry_after=100)
s.answers("503", _bx(503, "unavailable", "Unavailable"), "api_temporary", True, "away for now")
s.answers("403-storage", _bx(403, "storage_limit_exceeded", "Account storage limit reached"), "quota_exhausted", False, "the account's storage is full", also=("authentication",))
s.faults("refused")


def _webdav(url: str) -> None:
    from webdav3.client import Client

    Client({"webdav_hostname": url, "webdav_login": "u", "webdav_password": "p", "webdav_timeout": 1}).list("/x/")


s = Service(CASES, "webdavclient3", _webdav)
s.answers("404", reply(404, "Not Found"), "not_found", False, "no such folder")
s.answers("500", reply(500, "Internal Server Error"), "api_temporary", True, "the server failed")
s.answers("507", reply(507, "Insufficient Storage"), "system", True, "the server's disk is full", also=("quota_exhausted", "api_temporary"))
s.answers("423", reply(423, "Locked"), "database_busy", True, "somebody holds a lock on the file", also=("api_temporary", "invalid_parameters"))
s.faults("refused", "dns")

# -- search and vectors ------------------------------------------------------------------------------------------------------


def _opensearch(url: str) -> None:
    from opensearchpy import OpenSearch

    OpenSearch(url, http_auth=("u", "p"), max_retries=0, timeout=1).search(index="logs", body={"query": {"match_all": {}}})


def _os(status: int, kind: str, reason: str) -> Reply:
    return reply(status, {"error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason}, "status": status})


s = Service(CASES, "opensearch-py", _opensearch)
s.answers("404", _os(404, "index_not_found_exception", "no such index [logs]"), "not_found", False, "no such index")
s.answers("400", _os(400, "parsing_exception", "unknown query [match_al]"), "invalid_parameters", False, "the query is wrong")
s.answers("401", reply(401, "Unauthorized"), "authentication", False, "the password is refused")
s.answers("403", _os(403, "security_exception", "no permissions for [indices:data/read/search] and User [name=u, backend_roles=[], requestedTenant=null]"), "authentication", False, "the user lacks the right", also=("access_denied",))
s.answers("409", _os(409, "version_conflict_engine_exception", "[1]: version conflict, current version [2] is different than the one provided [1]"), "integrity", False, "another writer was first; the same version would be sent again", also=("database_busy", "invalid_parameters"))
s.answers("429-rejected", _os(429, "rejected_execution_exception", "rejected execution of coordinating operation [coordinating_and_primary_bytes=0, replica_bytes=0]"), "rate_limit", True, "queues are full for now", also=("api_temporary",))
s.answers("429-breaker", _os(429, "circuit_breaking_exception", "[parent] Data too large, data for [<http_request>] would be [123848638/118.1mb], which is larger than the limit of [123273216/117.5mb]"), "rate_limit", True, "the server's memory is short for now", also=("api_temporary", "system"))
s.answers("403-disk", _os(403, "cluster_block_exception", "index [logs] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];"), "system", True, "the server's disk is full and the index read-only until space is freed", also=("authentication", "access_denied", "api_temporary"))
s.answers("503", _os(503, "cluster_manager_not_discovered_exception", None), "api_temporary", True, "a leader is being elected")
s.faults("refused", "timeout")


def _meili(url: str) -> None:
    import meilisearch

    meilisearch.Client(url, "key", timeout=1).get_index("books")


def _ml(status: int, code: str, kind: str, message: str) -> Reply:
    return reply(status, {"message": message, "code": code, "type": kind, "link": f"https://docs.meilisearch.com/errors#{code}"})


s = Service(CASES, "meilisearch", _meili)
s.answers("404", _ml(404, "index_not_found", "invalid_request", "Index `books` not found."), "not_found", False, "no such index")
s.answers("403", _ml(403, "invalid_api_key", "auth", "The provided API key is invalid."), "authentication", False, "the key is refused")
s.answers("400", _ml(400, "invalid_search_filter", "invalid_request", "Attribute `genre` is not filterable. This index does not have configured filterable attributes."), "invalid_parameters", False, "the filter is wrong")
s.answers("503", _ml(503, "too_many_search_requests", "system", "Too many search requests running at the same time: 1000. Retry after 10s."), "api_temporary", True, "too busy for now", retry_after=10, also=("rate_limit",))
s.answers("422", _ml(422, "no_space_left_on_device", "system", "There is no more space left on the device. Consider increasing the size of the disk/partition."), "system", True, "the server's disk is full", also=("invalid_parameters",))
s.faults("refused", "timeout", "dns")


def _typesense(url: str) -> None:
    import typesense

    typesense.Client({"api_key": "k", "nodes": [{"host": urlsplit(url).hostname, "port": _port(url), "protocol": "http"}], "connection_timeout_seconds": 0.7, "num_retries": 0, "retry_interval_seconds": 0.01}).collections["books"].retrieve()


s = Service(CASES, "typesense", _typesense)
s.answers("401", reply(401, {"message": "Forbidden - a valid `x-typesense-api-key` header must be sent."}), "authentication", False, "the key is refused")
s.answers("404", reply(404, {"message": "Not Found"}), "not_found", False, "no such collection")
s.answers("409", reply(409, {"message": "A collection with name `books` already exists."}), "integrity", False, "the name is taken", also=("invalid_parameters",))
s.answers("400", reply(400, {"message": "Field `points` must be an int32."}), "invalid_parameters", False, "a field has the wrong type")
s.answers("422", reply(422, {"message": "Rejecting write: running out of resource type: OUT_OF_DISK"}), "system", True, "the server's disk is full", also=("invalid_parameters",))
s.answers("503", reply(503, {"message": "Not Ready or Lagging"}), "api_temporary", True, "the node is starting")
s.answers("500", reply(500, {"message": "Could not find a healthy leader"}), "api_temporary", True, "a leader is being elected")


def _qdrant(url: str) -> None:
    from qdrant_client import QdrantClient

    QdrantClient(url=url, port=None, api_key="k", timeout=1, check_compatibility=False).get_collection("books")


def _qd(status: int, error: str, **headers: str) -> Reply:
    return reply(status, {"status": {"error": error}, "time": 0.0001}, **headers)


s = Service(CASES, "qdrant-client", _qdrant)
s.answers("404", _qd(404, "Not found: Collection `books` doesn't exist!"), "not_found", False, "no such collection")
s.answers("403", reply(403, "Invalid api-key"), "authentication", False, "the key is refused", also=("access_denied",))
s.answers("400", _qd(400, "Wrong input: Vector dimension error: expected dim: 384, got 768"), "invalid_parameters", False, "the vector has the wrong length")
s.answers("429", _qd(429, "Rate limiting exceeded: Read rate limit exceeded, retry later", Retry_After="7"), "rate_limit", True, "a stated wait", retry_after=7)
s.answers("500", _qd(500, "Service internal error: 1 of 1 read operations failed"), "api_temporary", True, "the server failed")
s.faults("refused", "timeout")


def _pinecone(url: str) -> None:
    from pinecone import Pinecone, RetryConfig

    Pinecone(api_key="k", host=url, timeout=1, retry_config=RetryConfig(max_retries=0)).describe_index("books")


def _pc(status: int, code: str, message: str) -> Reply:
    return reply(status, {"error": {"code": code, "message": message}, "status": status})


s = Service(CASES, "pinecone", _pinecone)
s.answers("401", reply(401, "Invalid API Key"), "authentication", False, "the key is refused")
s.answers("404", _pc(404, "NOT_FOUND", "Resource books not found"), "not_found", False, "no such index")
s.answers("409", _pc(409, "ALREADY_EXISTS", "Resource already exists"), "integrity", False, "the name is taken", also=("invalid_parameters",))
s.answers("429", reply(429, {"code": 8, "message": "Request failed. You've reached your write unit limit for the current month (2000000). To continue writing data, upgrade your plan.", "details": []}), "quota_exhausted", False, "the writes of the month are used up", also=("rate_limit",))
s.answers("403-quota", _pc(403, "FORBIDDEN", "You've reached the max serverless indexes allowed in project Default (5). To add more, upgrade your plan."), "quota_exhausted", False, "the plan has no more indexes", also=("authentication", "access_denied"))
s.answers("500", _pc(500, "UNKNOWN", "Internal server error"), "api_temporary", True, "the server failed")
s.faults("refused", "timeout")


def _algolia(url: str) -> None:
    from algoliasearch.http.hosts import CallType, Host, HostsCollection
    from algoliasearch.search.client import SearchClientSync
    from algoliasearch.search.config import SearchConfig

    config = SearchConfig("APP", "key")
    config.hosts = HostsCollection([Host(url="127.0.0.1", scheme="http", port=_port(url), accept=CallType.READ | CallType.WRITE)])
    config.read_timeout = 500
    SearchClientSync(config=config).get_settings("books")


s = Service(CASES, "algoliasearch", _algolia)
s.answers("403", reply(403, {"message": "Invalid Application-ID or API key", "status": 403}), "authentication", False, "the key is refused")
s.answers("404", reply(404, {"message": "Index does not exist", "status": 404}), "not_found", False, "no such index")
s.answers("400", reply(400, {"message": "Record at the position 10 objectID=1 is too big size=12000/10000 bytes. Please have a look at https://www.algolia.com/doc/guides/sending-and-managing-data/prepare-your-data/in-depth/index-and-records-size-and-usage-limitations/#record-size-limits", "position": 10, "objectID": "1", "status": 400}), "invalid_parameters", False, "a record is too large")
s.answers("429", reply(429, {"message": "Too many requests", "status": 429}), "rate_limit", True, "too many requests for now")

# -- SOAP and GraphQL -----------------------------------------------------------------------------------------------------------

_WSDL = """<?xml version="1.0"?><definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:tns="urn:x" xmlns:xsd="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:x">
<types><xsd:schema targetNamespace="urn:x" elementFormDefault="qualified"><xsd:element name="Get"><xsd:complexType><xsd:sequence><xsd:element name="id" type="xsd:int"/></xsd:sequence></xsd:complexType></xsd:element><xsd:element name="GetResponse"><xsd:complexType><xsd:sequence><xsd:element name="name" type="xsd:string"/></xsd:sequence></xsd:complexType></xsd:element></xsd:schema></types>
<message name="In"><part name="parameters" element="tns:Get"/></message><message name="Out"><part name="parameters" element="tns:GetResponse"/></message>
<portType name="P"><operation name="Get"><input message="tns:In"/><output message="tns:Out"/></operation></portType>
<binding name="B" type="tns:P"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/><operation name="Get"><soap:operation soapAction="urn:x#Get"/><input><soap:body use="literal"/></input><output><soap:body use="literal"/></output></operation></binding>
<service name="S"><port name="P" binding="tns:B"><soap:address location="%s/soap"/></port></service></definitions>"""


def _zeep(url: str) -> None:
    import zeep

    client = zeep.Client(file("service.wsdl", (_WSDL % url).encode()), transport=zeep.Transport(timeout=1, operation_timeout=1))
    client.service.Get(id=1)


def _fault(status: int, code: str, text: str, detail: str = "") -> Reply:
    return reply(status, f'<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><soap:Fault><faultcode>{code}</faultcode><faultstring>{text}</faultstring>{detail}</soap:Fault></soap:Body></soap:Envelope>', Content_Type="text/xml; charset=utf-8")


s = Service(CASES, "zeep", _zeep)
s.answers("fault-auth", _fault(500, "soap:Client", "Authentication failed: invalid username or password"), "authentication", False, "the fault refuses the credentials, with status 500 as SOAP has it")
s.answers("fault-client", _fault(500, "soap:Client", "Parameter 'id' must be a positive number"), "invalid_parameters", False, "the caller is at fault")
s.answers("fault-server", _fault(500, "soap:Server", "Server was unable to process request. ---> Timeout expired. The timeout period elapsed prior to completion of the operation or the server is not responding."), "api_temporary", True, "the server's database was too slow", also=("network", "database_busy"))
s.answers("fault-limit", _fault(500, "soap:Server", "Rate limit exceeded. Please retry after 20 seconds."), "rate_limit", True, "a stated wait", retry_after=20)
s.answers("404", reply(404, "<html>Not Found</html>"), "unknown", False, "no such endpoint, but the client drops the status and says nothing of it", also=("not_found", "api_temporary"))
s.answers("401", reply(401, ""), "authentication", False, "the credentials are refused")
s.answers("503", reply(503, "Service Unavailable"), "api_temporary", True, "away for now")
s.answers("not-xml", reply(200, "{'a': 1}", Content_Type="text/xml"), "data", False, "the answer is not XML")


def _zeep_missing() -> None:
    with http(reply(200, "")) as url:
        import zeep

        zeep.Client(file("service.wsdl", (_WSDL % url).encode())).service.Get()


CASES.add("zeep/missing-element", "invalid_parameters", False, "an element is missing in the call", _zeep_missing, also=("data",))


def _zeep_operation() -> None:
    import zeep

    zeep.Client(file("service.wsdl", (_WSDL % "http://127.0.0.1:9").encode())).service.Nope()


CASES.add("zeep/operation", "invalid_parameters", False, "no such operation", _zeep_operation, also=("not_found", "configuration", "unknown"))
CASES.add("zeep/wsdl", "data", False, "the description is cut off", lambda: __import__("zeep").Client(file("service.wsdl", _WSDL[:300].encode())), also=("configuration",))


def _gql(url: str) -> None:
    from gql import Client, gql
    from gql.transport.requests import RequestsHTTPTransport

    Client(transport=RequestsHTTPTransport(url=url, timeout=1)).execute(gql("{ viewer { login } }"))


def _gq(message: str, code: str | None = None, status: int = 200, **extensions: Any) -> Reply:
    more = ({"code": code} if code else {}) | extensions
    return reply(status, {"errors": [{"message": message} | ({"extensions": more} if more else {})], "data": None})


s = Service(CASES, "gql", _gql)
s.answers("unauthenticated", _gq("You must be logged in", "UNAUTHENTICATED"), "authentication", False, "the code says so")
s.answers("forbidden", _gq("Not authorized to access Viewer.login", "FORBIDDEN"), "authentication", False, "the code says so", also=("access_denied",))
s.answers("bad-input", _gq('Variable "$id" got invalid value "x"; Int cannot represent non-integer value: "x"', "BAD_USER_INPUT"), "invalid_parameters", False, "the code says so")
s.answers("validation", _gq('Cannot query field "logn" on type "User". Did you mean "login"?', "GRAPHQL_VALIDATION_FAILED", 400), "invalid_parameters", False, "the query is wrong")
s.answers("internal", _gq("Internal server error", "INTERNAL_SERVER_ERROR"), "api_temporary", True, "the code says so")
s.answers("throttled", _gq("Throttled", "THROTTLED", documentation="https://shopify.dev/api/usage/rate-limits"), "rate_limit", True, "the code says so, with status 200")
s.answers("not-found", reply(200, {"data": {"repository": None}, "errors": [{"type": "NOT_FOUND", "path": ["repository"], "locations": [{"line": 1, "column": 3}], "message": "Could not resolve to a Repository with the name 'a/b'."}]}), "not_found", False, "no such repository")
s.answers("rate-limited", reply(200, {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}]}), "rate_limit", True, "the type says so, with status 200")
s.answers("401", reply(401, {"message": "Bad credentials"}), "authentication", False, "the token is refused")
s.answers("502", reply(502, "<html>Bad Gateway</html>"), "api_temporary", True, "the gateway failed")
s.faults("html", "refused", "timeout")


def _gql_syntax() -> None:
    from gql import gql

    gql("{ viewer { login ")


CASES.add("gql/syntax", "invalid_parameters", False, "the query does not parse", _gql_syntax, also=("data",))

# -- services of Google, Atlassian and others through their own clients ----------------------------------------------------------


def _gspread(url: str) -> None:
    import gspread
    from google.auth.credentials import AnonymousCredentials

    gspread.Client(AnonymousCredentials(), session=redirected(url)).open_by_key("1abc")


def _gs(status: int, name: str, message: str) -> Reply:
    return reply(status, {"error": {"code": status, "message": message, "status": name}})


s = Service(CASES, "gspread", _gspread)
s.answers("429", _gs(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per user' of service 'sheets.googleapis.com' for consumer 'project_number:1'."), "rate_limit", True, "a limit per minute passes")
s.answers("404", _gs(404, "NOT_FOUND", "Requested entity was not found."), "not_found", False, "no such sheet")
s.answers("403", _gs(403, "PERMISSION_DENIED", "The caller does not have permission"), "authentication", False, "the account lacks the right", also=("access_denied",))
s.answers("400", _gs(400, "INVALID_ARGUMENT", "Unable to parse range: Sheet9!A1"), "invalid_parameters", False, "not a range")
s.answers("503", _gs(503, "UNAVAILABLE", "The service is currently unavailable."), "api_temporary", True, "away for now")


def _zenpy(url: str) -> None:
    from zenpy import Zenpy

    Zenpy(subdomain="x", email="a@example.com", token="t", session=redirected(url), ratelimit_budget=1).tickets(id=1)


s = Service(CASES, "zenpy", _zenpy)
s.answers("401", reply(401, {"error": "Couldn't authenticate you"}), "authentication", False, "the token is refused")
s.answers("404", reply(404, {"error": "RecordNotFound", "description": "Not found"}), "not_found", False, "no such ticket")
s.answers("422", reply(422, {"error": "RecordInvalid", "description": "Record validation errors", "details": {"value": [{"type": "blank", "description": "can't be blank"}]}}), "invalid_parameters", False, "a value is missing")
s.answers("429", reply(429, {"description": "Number of allowed API requests per minute exceeded", "error": "TooManyRequests"}, Retry_After="93", X_Rate_Limit="700"), "rate_limit", True, "too many requests; the client drops the stated wait")


def _web3(url: str) -> None:
    from web3 import HTTPProvider, Web3

    Web3(HTTPProvider(url, request_kwargs={"timeout": 1}, exception_retry_configuration=None)).eth.get_balance("0x" + "0" * 40)


def _rpc(code: int, message: str, **data: Any) -> Reply:
    return reply(200, {"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": message} | ({"data": data} if data else {})})


s = Service(CASES, "web3", _web3)
s.answers("-32005", _rpc(-32005, "daily request count exceeded, request rate limited", rate={"allowed_rps": 1, "backoff_seconds": 30, "current_rps": 1.266}, see="https://infura.io/dashboard"), "rate_limit", True, "past the daily count one request per second is still served; the body states the wait", retry_after=30, also=("quota_exhausted",))
s.answers("-32005-limit", _rpc(-32005, "project ID request rate exceeded"), "rate_limit", True, "too many requests per second")
s.answers("-32601", _rpc(-32601, "the method eth_getBalanc does not exist/is not available"), "invalid_parameters", False, "no such method", also=("not_found",))
s.answers("-32602", _rpc(-32602, "invalid argument 0: hex string has length 38, want 40 for common.Address"), "invalid_parameters", False, "not an address")
s.answers("-32603", _rpc(-32603, "Internal JSON-RPC error."), "api_temporary", True, "the node failed")
s.answers("nonce", _rpc(-32000, "nonce too low: next nonce 12, tx nonce 11"), "invalid_parameters", False, "the number was used already", also=("integrity",))
s.answers("funds", _rpc(-32000, "insufficient funds for gas * price + value: balance 0, tx cost 21000"), "invalid_parameters", False, "not enough money on the account", also=("quota_exhausted",))


def _web3_address() -> None:
    from web3 import HTTPProvider, Web3

    Web3(HTTPProvider(f"http://127.0.0.1:{refused()}")).eth.get_balance("0x12")  # type: ignore[arg-type]


CASES.add("web3/address", "invalid_parameters", False, "not an address", _web3_address)

# -- HTTP clients ----------------------------------------------------------------------------------------------------------------


def _tornado(url: str) -> None:
    from tornado.httpclient import AsyncHTTPClient

    async def run() -> None:
        await AsyncHTTPClient(force_instance=True).fetch(url, request_timeout=0.7, connect_timeout=0.7)

    asyncio.run(run())


s = Service(CASES, "tornado", _tornado)
s.answers("403", reply(403, "Forbidden"), "access_denied", False, "no credentials were sent")
s.answers("404", reply(404, "Not Found"), "not_found", False, "no such page")
s.answers("410", reply(410, "Gone"), "not_found", False, "the page is gone")
s.answers("429", reply(429, "slow down", Retry_After="12"), "rate_limit", True, "a stated wait", retry_after=12)
s.answers("500", reply(500, "oops"), "api_temporary", True, "the server failed")
s.answers("503", reply(503, "maintenance", Retry_After="120"), "api_temporary", True, "a stated wait", retry_after=120)
s.answers("503-date", reply(503, "maintenance", Retry_After=date(90)), "api_temporary", True, "a stated wait, as a date", retry_after=90)
s.answers("301-loop", reply(301, "", Location="/"), "configuration", False, "redirects without end", also=("invalid_parameters", "api_temporary", "network", "unknown"))
s.faults("timeout", "hangup")
CASES.add("tornado/bad-url", "configuration", False, "the URL has a scheme that the client does not know", lambda: _tornado("ftp://127.0.0.1/x"), also=("invalid_parameters",))


def _niquests(url: str) -> None:
    import niquests

    niquests.get(url, timeout=0.7).raise_for_status()


s = Service(CASES, "niquests", _niquests)
s.answers("403", reply(403, "Forbidden"), "access_denied", False, "no credentials were sent")
s.answers("404", reply(404, "Not Found"), "not_found", False, "no such page")
s.answers("429", reply(429, "slow down", Retry_After="44"), "rate_limit", True, "a stated wait", retry_after=44)
s.answers("429-date", reply(429, "slow down", Retry_After=date(45)), "rate_limit", True, "a stated wait, as a date", retry_after=45)
s.answers("502", reply(502, "oops"), "api_temporary", True, "the gateway failed")
s.answers("408", reply(408, "Request Timeout"), "api_temporary", True, "the request came too slowly", also=("network",))
s.answers("405", reply(405, "Method Not Allowed", Allow="POST"), "invalid_parameters", False, "another method is needed")
s.answers("loop", reply(302, "", Location="/"), "configuration", False, "redirects without end", also=("invalid_parameters", "api_temporary", "network", "unknown"))
s.faults("refused", "timeout", "hangup", "dns", "tls")
CASES.add("niquests/no-scheme", "configuration", False, "the URL has no scheme", lambda: _niquests("example.com/x"), also=("invalid_parameters",))
CASES.add("niquests/json", "data", False, "the body is not JSON", lambda: _niquests_json())  # noqa: PLW0108 (defined below)


def _niquests_json() -> None:
    import niquests

    with http(reply(200, "<html></html>")) as url:
        niquests.get(url, timeout=1).json()


def _pycurl(url: str, **options: Any) -> None:
    import pycurl

    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.TIMEOUT_MS, 700)
    curl.setopt(pycurl.FAILONERROR, True)
    curl.setopt(pycurl.WRITEFUNCTION, lambda _data: None)
    for name, value in options.items():
        curl.setopt(getattr(pycurl, name), value)
    curl.perform()


s = Service(CASES, "pycurl", _pycurl)
s.answers("404", reply(404, "Not Found"), "not_found", False, "the text has the status, the code only says that one was 400 or more")
s.answers("503", reply(503, "away"), "api_temporary", True, "the text has the status")
s.answers("401", reply(401, "who?"), "authentication", False, "the text has the status")
s.faults("refused", "timeout", "hangup", "reset", "dns", "tls")
CASES.add("pycurl/url", "configuration", False, "not a URL", lambda: _pycurl("http://[x/"), also=("invalid_parameters",))
CASES.add("pycurl/scheme", "configuration", False, "the URL has a scheme that the client does not know", lambda: _pycurl("nope://127.0.0.1/"), also=("invalid_parameters",))
CASES.add("pycurl/file", "not_found", False, "no such file", lambda: _pycurl("file:///no/such/file"))


def _pycurl_loop() -> None:
    with http(reply(302, "", Location="/")) as url:
        _pycurl(url, FOLLOWLOCATION=True, MAXREDIRS=3)


CASES.add("pycurl/loop", "configuration", False, "redirects without end", _pycurl_loop, also=("invalid_parameters", "api_temporary", "network", "unknown"))


def _pycurl_partial() -> None:
    from .world import talking

    def talk(connection: Any) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")

    with talking(talk) as port:
        _pycurl(f"http://127.0.0.1:{port}")


CASES.add("pycurl/partial", "network", True, "the body broke off", _pycurl_partial)


def _pycurl_encoding() -> None:
    with http(reply(200, b"not gzip at all", Content_Encoding="gzip")) as url:
        _pycurl(url, ACCEPT_ENCODING="gzip")


CASES.add("pycurl/encoding", "data", False, "the body is not compressed as it says", _pycurl_encoding)


def _treq(url: str) -> None:
    """Twisted's loop runs in a thread, since it starts only once in a process."""
    import threading

    from twisted.internet import reactor
    from twisted.internet.threads import blockingCallFromThread

    if not reactor.running:  # type: ignore[attr-defined]
        threading.Thread(target=lambda: reactor.run(installSignalHandlers=False), daemon=True).start()  # type: ignore[attr-defined]
    import treq

    blockingCallFromThread(reactor, lambda: treq.get(url, timeout=0.7, persistent=False))


s = Service(CASES, "twisted", _treq)
s.faults("refused", "timeout", "hangup", "reset", "dns", "tls")
CASES.add("twisted/scheme", "configuration", False, "the URL has a scheme that the client does not know", lambda: _treq("ftp://127.0.0.1/"), also=("invalid_parameters",))


def _authlib(url: str) -> None:
    from authlib.integrations.requests_client import OAuth2Session

    OAuth2Session("id", "secret").fetch_token(url + "/token", grant_type="client_credentials")


s = Service(CASES, "authlib", _authlib)
s.answers("invalid-client", reply(401, {"error": "invalid_client", "error_description": "Client authentication failed"}), "authentication", False, "the secret is refused")
s.answers("invalid-grant", reply(400, {"error": "invalid_grant", "error_description": "The refresh token is expired or revoked"}), "authentication", False, "the grant is no longer valid")
s.answers("invalid-scope", reply(400, {"error": "invalid_scope", "error_description": "The requested scope is invalid"}), "invalid_parameters", False, "no such scope", also=("authentication", "configuration"))
s.answers("unavailable", reply(400, {"error": "temporarily_unavailable", "error_description": "The authorization server is currently unable to handle the request"}), "api_temporary", True, "the code says so")


def _oauthlib(url: str) -> None:
    import os

    from oauthlib.oauth2 import BackendApplicationClient
    from requests_oauthlib import OAuth2Session

    os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
    OAuth2Session(client=BackendApplicationClient("id")).fetch_token(url + "/token", client_secret="secret", timeout=1)


s = Service(CASES, "oauthlib", _oauthlib)
s.answers("invalid-client", reply(401, {"error": "invalid_client", "error_description": "Client authentication failed"}), "authentication", False, "the secret is refused")
s.answers("missing-token", reply(200, {"token_type": "bearer"}), "data", False, "the answer lacks the token", also=("authentication",))
s.answers("server-error", reply(400, {"error": "server_error", "error_description": "The authorization server encountered an unexpected condition"}), "api_temporary", True, "the code says so")


def _oauthlib_insecure() -> None:
    import os

    from oauthlib.oauth2 import BackendApplicationClient
    from requests_oauthlib import OAuth2Session

    os.environ.pop("OAUTHLIB_INSECURE_TRANSPORT", None)
    OAuth2Session(client=BackendApplicationClient("id")).fetch_token("http://127.0.0.1:9/token", client_secret="s")


CASES.add("oauthlib/insecure", "configuration", False, "the URL has to be https", _oauthlib_insecure)
