"""AWS beyond S3, through boto3: from moto where it makes them, else from a stub that speaks the service's protocol."""

from __future__ import annotations

import json
from contextlib import closing
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import RETRYABLE, Category, Origin
from servers.s3 import aws_client

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[Any], object]

C = Category
_KEY = {"k": {"S": "1"}}
_TABLE: dict[str, Any] = {
    "TableName": "t",
    "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
_IF_NEW = {"TableName": "t", "Item": _KEY, "ConditionExpression": "attribute_not_exists(k)"}
_MAIL: dict[str, Any] = {
    "Source": "a@sender.test",
    "Destination": {"ToAddresses": ["b@receiver.test"]},
    "Message": {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}},
}

CALLS: dict[str, Call] = {
    "dynamodb": lambda client: client.put_item(TableName="t", Item=_KEY),
    "transaction": lambda client: client.transact_write_items(
        TransactItems=[{"Put": {"TableName": "t", "Item": _KEY}}]
    ),
    "sqs": lambda client: client.send_message(QueueUrl=f"{client.meta.endpoint_url}/1/q", MessageBody="b"),
    "ses": lambda client: client.send_email(**_MAIL),
    "sts": lambda client: client.assume_role(RoleArn="arn:aws:iam::123456789012:role/r", RoleSessionName="session"),
    "lambda": lambda client: client.invoke(FunctionName="f"),
    "sns": lambda client: client.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:t", Message="m"),
    "kinesis": lambda client: client.put_record(StreamName="s", Data=b"d", PartitionKey="p"),
}
"""One call of each service, for the stub to refuse."""

_SERVICE = {"transaction": "dynamodb"}


def _document(call: str, code: str, message: str) -> tuple[dict[str, str], str]:
    """Write an error in the protocol of the service: XML for the older ones, else JSON."""
    if call in {"ses", "sts", "sns"}:
        error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        return {"Content-Type": "text/xml"}, f"<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"
    if call == "lambda":
        return {"Content-Type": "application/json", "x-amzn-ErrorType": code}, json.dumps({"Message": message})
    headers = {"Content-Type": "application/x-amz-json-1.0"}
    if call == "sqs":
        headers["x-amzn-query-error"] = f"{code};Sender"
    return headers, json.dumps({"__type": f"com.amazonaws.x#{code.rpartition('.')[2]}", "message": message})


def _refused(call: str, url: str) -> BaseException:
    with closing(aws_client(_SERVICE.get(call, call), url)) as client:
        return caught(CALLS[call], client)


def _stub_case(call: str, code: str, category: Category, status: int = 400, message: str = "No.") -> Case:
    def produce(world: World) -> BaseException:
        return _refused(call, world.faults.base(status, *_document(call, code, message)))

    name = f"{call}/{code}" + ("" if message == "No." else "-" + message.split(maxsplit=1)[0].lower())
    retryable = category in RETRYABLE
    return Case(name, produce, category, retryable, http_status=status, code=code, origin=Origin.AWS)


# call, code, category, then status and message where they differ from 400 and "No."
REFUSALS: list[tuple[Any, ...]] = [
    ("dynamodb", "ProvisionedThroughputExceededException", C.RATE_LIMIT),
    ("dynamodb", "RequestLimitExceeded", C.RATE_LIMIT),
    ("dynamodb", "ThrottlingException", C.RATE_LIMIT),
    ("dynamodb", "LimitExceededException", C.RATE_LIMIT),
    ("dynamodb", "ItemCollectionSizeLimitExceededException", C.INVALID_PARAMETERS),
    ("dynamodb", "TransactionConflictException", C.DATABASE_BUSY),
    ("dynamodb", "ReplicatedWriteConflictException", C.DATABASE_BUSY),
    ("dynamodb", "DuplicateItemException", C.INTEGRITY),
    ("dynamodb", "ResourceInUseException", C.API_TEMPORARY, 400, "Table is being updated: t"),
    ("dynamodb", "UnrecognizedClientException", C.AUTHENTICATION),
    ("dynamodb", "MissingAuthenticationTokenException", C.AUTHENTICATION),
    ("dynamodb", "InternalServerError", C.API_TEMPORARY, 500),
    ("dynamodb", "ServiceUnavailable", C.API_TEMPORARY, 503),
    ("sqs", "OverLimit", C.RATE_LIMIT, 403),
    ("sqs", "RequestThrottled", C.RATE_LIMIT, 403),
    ("sqs", "KMS.ThrottlingException", C.RATE_LIMIT),
    ("sqs", "KMS.AccessDeniedException", C.AUTHENTICATION),
    ("sqs", "AWS.SimpleQueueService.QueueDeletedRecently", C.API_TEMPORARY),
    ("sqs", "AWS.SimpleQueueService.PurgeQueueInProgress", C.API_TEMPORARY, 403),
    ("sqs", "AWS.SimpleQueueService.UnsupportedOperation", C.INVALID_PARAMETERS),
    ("ses", "Throttling", C.QUOTA_EXHAUSTED, 400, "Daily message quota exceeded."),
    ("ses", "Throttling", C.RATE_LIMIT, 400, "Maximum sending rate exceeded."),
    ("ses", "MailFromDomainNotVerifiedException", C.CONFIGURATION),
    ("ses", "AccountSendingPausedException", C.AUTHENTICATION),
    ("ses", "ConfigurationSetSendingPausedException", C.CONFIGURATION),
    ("ses", "SignatureDoesNotMatch", C.AUTHENTICATION, 403),
    ("sts", "ExpiredToken", C.AUTHENTICATION),
    ("sts", "InvalidClientTokenId", C.AUTHENTICATION, 403),
    ("sts", "AccessDenied", C.AUTHENTICATION, 403),
    ("sts", "RegionDisabledException", C.CONFIGURATION, 403),
    ("sts", "IDPCommunicationError", C.API_TEMPORARY),
    ("sts", "MalformedPolicyDocument", C.INVALID_PARAMETERS),
    ("lambda", "TooManyRequestsException", C.RATE_LIMIT, 429),
    ("lambda", "CodeStorageExceededException", C.QUOTA_EXHAUSTED),
    ("lambda", "ResourceConflictException", C.API_TEMPORARY, 409, "An update is in progress for resource f"),
    ("lambda", "ResourceConflictException", C.INVALID_PARAMETERS, 409, "Function already exist: f"),
    ("lambda", "ServiceException", C.API_TEMPORARY, 500),
    ("lambda", "KMSDisabledException", C.CONFIGURATION, 502),
    ("lambda", "RequestTooLargeException", C.INVALID_PARAMETERS, 413),
    ("sns", "Throttled", C.RATE_LIMIT, 429),
    ("sns", "EndpointDisabled", C.NOT_FOUND),
    ("sns", "AuthorizationError", C.AUTHENTICATION, 403),
    ("sns", "TopicLimitExceeded", C.QUOTA_EXHAUSTED, 403),
    ("sns", "InternalError", C.API_TEMPORARY, 500),
    ("kinesis", "ProvisionedThroughputExceededException", C.RATE_LIMIT),
    ("kinesis", "LimitExceededException", C.RATE_LIMIT),
    ("kinesis", "ExpiredIteratorException", C.INVALID_PARAMETERS),
    ("kinesis", "KMSThrottlingException", C.RATE_LIMIT),
    ("kinesis", "InternalFailure", C.API_TEMPORARY, 500),
]


def _cancelled(reasons: list[str], world: World) -> BaseException:
    """A transaction that DynamoDB cancelled, with a reason for each of its items."""
    headers, body = _document("transaction", "TransactionCanceledException", "Transaction cancelled")
    parts = {"CancellationReasons": [{"Code": code, "Message": "m"} for code in reasons]}
    return _refused("transaction", world.faults.base(400, headers, json.dumps(json.loads(body) | parts)))


CANCELLATIONS: list[tuple[list[str], Category]] = [
    (["None", "TransactionConflict"], C.DATABASE_BUSY),
    (["ProvisionedThroughputExceeded", "None"], C.RATE_LIMIT),
    (["ThrottlingError"], C.RATE_LIMIT),
    (["TransactionConflict", "ConditionalCheckFailed"], C.INVALID_PARAMETERS),
    (["ValidationError", "None"], C.INVALID_PARAMETERS),
    (["ItemCollectionSizeLimitExceeded"], C.INVALID_PARAMETERS),
]


def _cancelled_case(reasons: list[str], category: Category) -> Case:
    name = f"dynamodb/cancelled-{'-'.join(reasons)}"
    code = "TransactionCanceledException"
    return Case(name, partial(_cancelled, reasons), category, category in RETRYABLE, code=code, origin=Origin.AWS)


@cache
def _prepared(endpoint: str) -> None:
    """Give moto a table with one item and a queue."""
    with closing(aws_client("dynamodb", endpoint)) as client:
        client.create_table(**_TABLE)
        client.put_item(TableName="t", Item=_KEY)
    with closing(aws_client("sqs", endpoint)) as client:
        client.create_queue(QueueName="q")


def _moto_case(name: str, service: str, code: str, call: Call, category: Category = C.NOT_FOUND) -> Case:
    def produce(world: World) -> BaseException:
        _prepared(world.s3.endpoint)
        with closing(aws_client(service, world.s3.endpoint)) as client:
            return caught(call, client)

    return Case(
        f"{service}/moto-{name}", produce, category, category in RETRYABLE, code=code, origin=Origin.AWS, needs="s3"
    )


def _queue(client: Any) -> str:
    url: str = client.get_queue_url(QueueName="q")["QueueUrl"]
    return url


_NO, _GONE = C.INVALID_PARAMETERS, "ResourceNotFoundException"
_SQS = "AWS.SimpleQueueService."
_DEAD_EXECUTION = "arn:aws:states:us-east-1:123456789012:execution:machine:run"

MOTO: list[Case] = [
    _moto_case("no-table", "dynamodb", _GONE, lambda client: client.get_item(TableName="none", Key=_KEY)),
    _moto_case(
        "condition", "dynamodb", "ConditionalCheckFailedException", lambda client: client.put_item(**_IF_NEW), _NO
    ),
    _moto_case(
        "transaction",
        "dynamodb",
        "TransactionCanceledException",
        lambda client: client.transact_write_items(TransactItems=[{"Put": _IF_NEW}]),
        _NO,
    ),
    _moto_case("table-exists", "dynamodb", "ResourceInUseException", lambda client: client.create_table(**_TABLE), _NO),
    _moto_case(
        "validation",
        "dynamodb",
        "ValidationException",
        lambda client: client.get_item(TableName="t", Key={"z": {"S": "1"}}),
        _NO,
    ),
    _moto_case("no-queue", "sqs", _SQS + "NonExistentQueue", lambda client: client.get_queue_url(QueueName="none")),
    _moto_case(
        "receipt",
        "sqs",
        "ReceiptHandleIsInvalid",
        lambda client: client.delete_message(QueueUrl=_queue(client), ReceiptHandle="zz"),
        _NO,
    ),
    _moto_case(
        "queue-exists",
        "sqs",
        "QueueAlreadyExists",
        lambda client: client.create_queue(QueueName="q", Attributes={"DelaySeconds": "9"}),
        _NO,
    ),
    _moto_case(
        "empty-batch",
        "sqs",
        _SQS + "EmptyBatchRequest",
        lambda client: client.send_message_batch(QueueUrl=_queue(client), Entries=[]),
        _NO,
    ),
    _moto_case("rejected", "ses", "MessageRejected", CALLS["ses"], _NO),
    _moto_case("no-function", "lambda", _GONE, CALLS["lambda"]),
    _moto_case("no-topic", "sns", "NotFound", CALLS["sns"]),
    _moto_case("no-stream", "kinesis", _GONE, CALLS["kinesis"]),
    _moto_case("no-secret", "secretsmanager", _GONE, lambda client: client.get_secret_value(SecretId="none")),
    _moto_case("no-key", "kms", "NotFoundException", lambda client: client.encrypt(KeyId="none", Plaintext=b"p")),
    _moto_case(
        "no-execution",
        "stepfunctions",
        "ExecutionDoesNotExist",
        lambda client: client.describe_execution(executionArn=_DEAD_EXECUTION),
    ),
    _moto_case("no-group", "logs", _GONE, lambda client: client.delete_log_group(logGroupName="none")),
]

CASES = [
    *(_stub_case(*row) for row in REFUSALS),
    *(_cancelled_case(*row) for row in CANCELLATIONS),
    *MOTO,
    Case("dynamodb/refused", lambda world: _refused("dynamodb", world.faults.refused_url), C.NETWORK, retryable=True),
    Case("sqs/reset", lambda world: _refused("sqs", world.faults.fault("reset")), C.NETWORK, retryable=True),
]
