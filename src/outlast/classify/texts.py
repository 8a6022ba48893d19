"""Categories from the words of a message: the last resort, for errors that show nothing else.

Every pattern matches whole words, so that a URL, a port or a byte count is not mistaken for a status. If several match,
the permanent one wins: retrying what cannot succeed is worse than giving up on what might.
"""

import re
import unicodedata

from outlast.classify.data_errors import DATA_TEXTS
from outlast.classify.quota import judge_quota
from outlast.classify.safe_access import TEXT_LIMIT
from outlast.classify.statuses import REFUSAL, judge_status, quote
from outlast.classify.vendor_codes import code_in_text
from outlast.failure import RETRYABLE, Category, Evidence
from outlast.patterns import compiled, first_match, has_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


PHRASES: dict[Category, dict[str, str]] = {
    Category.AUTHENTICATION: {
        **REFUSAL,
        "authenticate logged": r"(?:failed|unable) to authenticate|not authenticated|(?:must be|not) logged in",
        "api credential login password signature token": r"(?:invalid|incorrect|wrong|bad|expired|revoked|missing) (?:\w+ )?(?:signature|login)|missing (?:\w+ )?(?:api[ _-]?key|credentials?|token|password)",
        "session signature": r"(?:session|(?<!method )(?<!function )signature)\b[\w ]{0,12}\b(?:invalid|expired|revoked|rejected|not valid|does not match)",
        "log sign authorization": r"log ?in required|sign[ -]?in (?:required|to confirm)|authorization required",
        "認証": "認証(?:に失敗|エラー|が必要|情報が(?:不正|無効))",
        "ログイン": "ログイン(?:が必要|に失敗)",
        "apiキー トークン パスワード": "(?:トークン|apiキー|パスワード)(?:の有効期限)?(?:が|は)?(?:無効|不正|期限切れ|切れ|間違|違い)",
    },
    Category.ACCESS_DENIED: {
        "access forbidden operation permission": r"access (?:is )?(?:denied|forbidden)|permission (?:denied|to \S+ denied)|forbidden(?! (?:character|word|value))|operation not permitted|(?:do|does) not have (?:\w+ ){0,2}permissions?",
        "アクセス": "アクセス(?:が|は|を)?(?:拒否|禁止)",
        "権限が": "権限が(?:ありません|ない|不足)",
    },
    Category.CONFIGURATION: {
        "config ipv6 protocol scheme setting uri url": r"(?:invalid|malformed|unsupported|missing|no) (?:url|uri|scheme|protocol|configuration|config|setting|ipv6 url)\b(?! (?:param|arg|value|field))",
        "given invalid malformed supplied unknown unsupported": r"(?:invalid|malformed) (?:endpoint|base url|dsn|connection string)|unsupported (?:url )?(?:scheme|protocol)|unknown (?:url type|scheme)|no (?:schem[ae]|host) (?:supplied|given)",
        "api configuration connection credential environment setting": (
            r"(?:api[ _-]?key|environment variable|setting|configuration|credentials?|connection string)\b[\w ]{0,40}\b(?:is |are |was )?"
            r"(?:not set|missing|empty|not configured|not defined|not provided|required|must be (?:set|provided))"
        ),
        "protocol scheme": r"(?:protocol|scheme)(?: ['\"]?[\w+.-]+['\"]?)? (?:is )?(?:invalid|unknown|not (?:known|supported|recogni[sz]ed))",
        "readonly unable": r"attempt to write a readonly database|unable to open database file",
        "found module": r"(?:module|library|driver|command|executable|plugin|interpreter|dependency) (?:'?[\w.-]+'? )?(?:is |was )?not found|no module named|data source name not found",
        "matching unsupported": r"no matching (?:[\w-]+ )?(?:encryption|key exchange|cipher|mac|host key)\b[\w ]{0,20}\bfound|unsupported (?:ssh|tls|ssl|protocol) version",
        "api": r"no api[ _-]?key (?:was |has been |is )?(?:provided|given|found|set|configured)",
        "certificate following": r"(?:could not|cannot) find a suitable tls ca certificate|must specify one of the following schemes",
        "authentication column configured credentials misconfigur module relation table": r"misconfigur(?:ed|ation)|not configured|(?:unable to|could not) (?:locate|find|load|resolve) (?:\w+ )?(?:credentials|authentication method)|relation \S+ does not exist|no such (?:table|column|module)",
        "database": r"(?:unknown|cannot open|no such) database(?! (?:type|engine|error))",
        "設定": "設定(?:が|値が|ファイルが)?(?:不正|無効|見つかり|ありません|されていません|エラー)",
        "apiキー 環境変数": "(?:apiキー|環境変数)(?: ?[\\w]+ ?)?(?:が|は)?(?:設定されていません|未設定|ありません)",
    },
    Category.NOT_FOUND: {
        "found": (
            r"(?=not[ _]found)(?<!host )(?<!hostname )(?<!domain )(?<!domain name )(?<!source name )(?<!['\"`]\W['\"`] )(?<!bytes )(?<!byte )(?<!magic )(?<!signature )(?<!marker )(?<!delimiter )"
            r"(?<!tag )(?<!footer )(?<!command )(?<!module )(?<!library )(?<!driver )(?<!parameter )(?<!argument )(?<!option )not[ _]found"
        ),
        "doesn't exist longer": r"(?=does|no )(?<!parameter )(?<!argument )(?<!option )(?<!setting )(?<!host )(?:does not exist|doesn't exist|no longer (?:exists|available))",
        "be found": r"(?<!address )(?<!domain )(?<!host )(?<!node )(?<!server )(?:cannot|can't|could not|couldn't) be found",
        "such": r"no such (?:file|key|bucket|object|entity|resource|user|page|document|item|record|video|channel|customer|account|order|index|collection|container|image|project|repository|branch|topic|queue)\b",
        "file": r"no (?:\w+ )?files? (?:were |was )?found",
        "deleted members private removed unavailable": r"(?=has|was|been)(?<!parameter )(?<!argument )(?<!option )(?<!method )(?<!support )(?<!function )(?:has been|was|been) (?:deleted|removed)(?! (?:in|since|as of) (?:version|release|python|v?\d))|video (?:is )?unavailable|private video|video is private|members[- ]only",
        "nosuch": r"nosuch(?:key|bucket|upload|version)",
        "がありません 削除され 存在しない 存在しません 見つからない 見つかりません 非公開": "該当する\\w{0,10}がありません|見つかりません|見つからない|存在しません|存在しない|削除され(?:ました|ています)|非公開",
    },
    Category.INVALID_PARAMETERS: {
        "argument field input param request value": (
            r"(?:invalid|illegal|bad|malformed|unknown|missing|unexpected|unsupported)\b(?: \w+)? "
            r"(?:parameters?|params?|arguments?|requests?|inputs?|values?|fields?)"
        ),
        "argument field input param": r"(?:parameters?|params?|arguments?|fields?|inputs?)\b[\w '\"]{0,40}\b(?:is|are|was) (?:invalid|required|missing|not valid|unknown)",
        "expression identifier name query selector": (
            r"(?:invalid|illegal|malformed) (?:\w+ )?(?:expression|identifier|query|selector|(?<!domain )(?<!host )(?<!server )name)(?! resolution)"
        ),
        "syntax": r"syntax error at or near|near \"[^\"]{0,60}\": syntax error|(?:error in your )?sql syntax(?: error)?",
        "serializ": r"not json[- ]serializable|(?:can ?not|can't) serialize ['\"]?[\w.]+['\"]? object",
        "context": r"maximum context length|context (?:length|window)(?: limit)? exceeded",
        "parameter argument field": r"(?:parameter|argument|field) (?:missing|required|invalid)|required (?:parameter|argument|field)",
        "parameter argument option": r"(?:parameter|argument|option)\b[\w '\"]{0,40}\b(?:not found|does not exist|was removed)",
        "must timeout": r"(?:invalid|illegal|bad) timeout|timeout (?:must|has to|should|parameter)|must be (?:an? )?(?:positive|non-?negative|greater than|at least|one of|between)",
        "timeout limit pool": r"(?:timeouts?|rate limit|connection pool(?: size)?)\b[\w ]{0,30}\b(?:must|has to|should|cannot be|is not valid)\b",
        "too": r"(?:object|payload|message|request|entity|body|file|value|record|key|upload)\b(?: is| was)? too (?:large|big|long)",
        "allowed maximum unprocessable validation": r"maximum (?:payload|message|request|body)(?: size)? exceeded|validation (?:failed|error)|unprocessable entity|method not allowed",
        "不正 無効": "(?:不正|無効)な(?:パラメータ|パラメーター|引数|値|リクエスト|入力)",
        "パラメータ 入力 引数": "(?:パラメータ|パラメーター|引数|入力)(?:が|は)?(?:不正|無効|足りません|不足|必須)",
        "必須": "必須(?:パラメータ|パラメーター|項目)",
    },
    Category.INTEGRITY: {
        "constraint duplicate violates": r"(?:unique|foreign key|not null|check|primary key|integrity|exclusion) constraint(?! (?:matching|exists|named))|violates \S+ constraint|duplicate (?:key|entry)",
        "constraint": r"constraint (?:violation|failed)",
        "unique": r"(?:keys?|columns?|values?|names?|rows?)\b[\w ,'\"]{0,30} (?:is|are) not unique",
        "制約 重複": "(?:一意|外部キー|整合性|not null)制約|重複(?:キー|エントリ)",
    },
    Category.DATA: {
        "corrupt invalid malformed truncated unexpected valid": r"(?:invalid|malformed|unexpected|truncated|corrupt(?:ed)?) (?:json|xml|html|utf-?8|csv|response|payload|data|start byte|encoding)|not valid (?:json|xml|html|utf-?8|csv|yaml|base64)",
        "cannot could decode parse parsing syntax well-formed": (
            r"(?:json|xml|html) (?:decode|parse|parsing|syntax) (?:error|failed)|(?:failed|unable|cannot|could not) to (?:decode|parse)"
            r"|could not (?:decode|parse)|not well-formed|cannot decode"
        ),
        "checksum codec expecting unexpected": r"checksum (?:mismatch|failed|error)|unexpected end of (?:json|file|input|data)|codec can't (?:de|en)code|expecting value",
        "解析 パース デコード 文字化け 不正な 形式が正しくありません 文字コード データが壊れ": "(?:解析|パース|デコード)(?:に失敗|エラー|できません)|文字化け|不正な(?:json|xml|データ|形式)|形式が正しくありません|文字コードの変換に失敗|データが壊れ",
    },
    Category.RATE_LIMIT: {
        "rate": r"(?=rate)(?<!exchange )(?<!interest )(?<!tax )(?<!frame )(?<!sample )(?<!bit )(?<!higher )(?<!no )rate[ -]?limit(?:ed|ing)?(?! (?:is|was|are|of|for) (?:disabled|off|not|the|each)|[ -]?(?:table|column|config|setting|header|parameter|limit|remaining|reset))",
        "limits": r"(?:exceed(?:ed|s|ing)?|hit|reached|over|due to|by)\b[\w ]{0,20} rate limits",
        "rate_limit ratelimitexceeded requests throttl": r"rate_limit(?:ed|_exceeded|_reached|_error)|(?:user)?ratelimitexceeded|too many requests|throttl(?:ed|ing)(?! (?:is|was|are) (?:disabled|off|not)| (?:config|settings?|parameter))|throttlingexception",
        "slow limit per request bot": r"slowdown|slow down|api limit (?:reached|exceeded|hit)|(?:calls|queries|requests) per (?:second|minute|hour) (?:limit )?exceeded|request limit exceeded|requests? (?:are )?too (?:fast|frequent)|not a bot",
        "アクセスが アクセス制限中 リクエスト レート": "レート(?:制限|リミット)|リクエスト(?:が|数が|回数の|数の)?(?:多すぎ|過多|上限|制限)|アクセスが(?:集中|多すぎ)|アクセス制限中",
    },
    Category.DATABASE_BUSY: {
        "locked sqlite_ deadlock lock": r"database (?:\w+ )?is locked|table (?:\S+ )?is locked|sqlite_(?:busy|locked)|deadlock(?: detected| found)?|lock wait timeout|lock timeout(?! (?:with|setting|value|parameter|option|must|of))|lock request time ?out",
        "conflict serialize obtain serialization statement clients connections": r"write conflict|conflict with recovery|could not (?:serialize|obtain lock)|serialization failure|statement timeout|too many (?:clients|connections)",
        "acquire obtain conflict set get": (
            r"(?:could not|failed to|unable to|cannot|can't) (?:(?:acquire|obtain) (?:an? |the )?(?:\w+ )?lock|(?:get|set) (?:an? |the )?(?:\w+ )?lock on)"
            r"|write-write conflict|conflicting lock is held|conflict on (?:update|write|commit)(?=\W*\Z|[!.:;])"
        ),
        "slots pool database": r"remaining connection slots|connection pool (?:is )?(?:exhausted|full)|queuepool limit|database system is (?:starting up|shutting down|in recovery)",
        "データベースが ロック 接続数": "接続数(?:が|の)?(?:上限|超過)|データベースが(?:ロック|ビジー)|デッドロック|ロック(?:待ち|の)?(?:タイムアウト|待機)",
    },
    Category.SYSTEM: {
        "space disk thread memory files outofmemory": r"no space left|disk (?:is )?full(?! check)|can't start new thread|(?:database or )?disk is full|out of memory|cannot allocate memory|too many open files|disk quota exceeded|outofmemoryerror",
        "enough exhausted read-only temporarily": r"not enough (?:space|memory|disk)|memory exhausted|resource temporarily exhausted|read-only file system",
        "ディスクがいっぱい メモリ 容量": "(?:ディスク|空き)?容量(?:が)?(?:不足|足り)|ディスクがいっぱい|メモリ(?:ー)?(?:が)?(?:不足|足り)",
    },
    Category.API_TEMPORARY: {
        "service temporar": r"(?<!not )(?<!not a )temporar(?:il)?y (?:un ?available|unable|failure(?! in name)|error|overloaded|down|busy)|service (?:is )?(?:temporarily |currently )?unavailable",
        "server": r"internal server error|server encountered an (?:internal|unexpected) error|\A\W*server error|(?:an?|the|with|returned|received|unexpected|remote|upstream|http|unknown|\d{3}) server error(?! (?:code|handler|page|policy))|server error(?<=[:(,;-] server error)",
        "backend gateway maintenance overloaded standby": r"in state standby|backend fetch failed|bad gateway|gateway time-?out|backend error|overloaded(?<!no matching overloaded)(?! (?:function|method|operator|constructor|signature|variant))|under maintenance",
        "try": r"(?=(?:re)?try )(?<!not )(?<!never )(?<!and )(?:(?:re)?try(?: your request)?(?: again)? (?:later|soon|shortly|(?:in|after) (?:an?|some|\d[\w.]*))|retry (?:your|the|this) (?:request|operation|transaction))",
        "went error wait": r"(?:something went wrong|(?:unexpected|unknown|internal) error|wait\b[\w ]{0,20} and)[\w ]{0,20}[.,:;!-]{0,2} (?:please )?(?:try again|retry)",
        "leader primary healthy replicas": r"no cluster leader|leader (?:is )?not (?:yet )?available|not (?:the )?leader (?:for|of) (?:that |this |the )?[\w-]*partition|leader changed|no primary (?:is )?available|no healthy (?:upstream|backend|host|node)s?|not enough (?:[\w-]+ )?replicas",
        "available connections": r"maximum connections exceeded|no (?:servers?|nodes?|workers?|brokers?|replicas?|backends?|responders?) (?:is |are )?available",
        "server temporary unavailable loading starting unable warming": r"(?:currently|temporarily) unable to (?:handle|process|serve|service|complete)|(?:is|are) (?:currently|still) (?:loading|starting(?: up)?|warming up)|(?<!not a )temporary (?:error|problem|issue|outage)|currently unavailable|server (?:is )?(?:too )?busy",
        "しばらく エラー メンテナンス中 一時的 混み合って": "一時的(?:に|な)(?:利用|使用|アクセス|エラー|障害|接続|サービス)|メンテナンス中|(?:サーバー|サーバ|内部)(?:の)?エラー|混み合って|しばらく(?:して|経って|待って|時間|お待ち)",
    },
    Category.NETWORK: {
        "timed timeout time-out": r"timed[ -]?out|(?:due to|because of) (?:an? )?(?:\w+ )?time-?out(?=\s*(?:\Z|[.:;,)]))|time-?out(?<!session timeout)(?<!token timeout)(?<!password timeout)(?: was| has been)? (?:error|exceeded|expired|occurred|elapsed|reached|hit|while|waiting|after|during|fetching|reading|connecting|contacting)",
        "timeout time-out": r"(?:connect(?:ion)?|read|write|request|response|socket|operation|server|network|net|query|idle|pool|upstream|handshake|ssl|tls|dns|http|api|rpc|command|call|fetch|download|upload|page|navigation|send|receive|recv|i/o) time-?outs?(?! (?:value|setting|parameter|must|has to|should|is (?:not|invalid)|cannot|of))",
        "time": r"\A\W*time-?out(?=\s*(?:\Z|[:.!,(-]))|(?<=[:(,;-] )time-?out(?=\W*\Z)",
        "deadline eai_again enotfound listener socket such": r"deadline exceeded|no such host|enotfound|eai_again|socket hang up|no listener",
        "authority certificate expired signed trusted verification verify": r"(?:x509|certificate)\b[\w :]{0,30}\b(?:expired|verify failed|verification failed|not trusted|unknown authority|self[- ]signed)|bad certificate",
        "network": r"(?<!neural )network (?:error|failure|problem)",
        "answer reply response": r"no (?:answer|reply|response) (?:was )?(?:received|from)",
        "connection": r"connection\b(?! (?:string|name|id|parameter)\b)[\w ]{0,30}\b(?:refused|reset|aborted|closed(?! (?:normally|cleanly|successfully))|lost|dropped|broken|failed|error|terminated|timed out|interrupted)",
        "refused reset closed lost timed": r"connection (?:to|from|with|at) [\w \"'()@/:.\u2026-]{1,60}\b(?:refused|reset|closed|lost|timed out)",
        "econn etimedout epipe unreach eai_again err_": r"econn(?:reset|refused|aborted)|etimedout|epipe|ehostunreach|enetunreach|eai_again|err_(?:connection|name_not|timed_out|ssl|network)\w*",
        "broken closed connect contact reach lost reset socket": r"(?:failed|unable|could not|cannot|can't)(?: to)? (?:contact|reach) (?:[\w-]+ ){0,2}(?:host|server|node|broker|service|endpoint|peer|database|cluster)s?|terminating connection|(?:failed|unable|could not|cannot|can't)(?: to)? (?:\w+ )?connect|connect(?:ion)? (?:failed|error)|broken pipe|reset by peer|(?:server|client|peer|host|socket) disconnected(?! ?[:=])|closed (?:the )?connection|lost connection|socket is closed",
        "unreachable down route eof hung gone": r"(?:network|host|no route to host|net)\b[\w ]{0,12}\b(?:is )?(?:unreachable|down)|no route to host|unexpected eof|eof occurred|hung up|gone away",
        "getaddrinfo nodename resolution resolve service": r"(?:temporary failure in )?name resolution|name or service not known|nodename nor servname|getaddrinfo|(?:could not|failed to|cannot|can't|unable to) resolve (?:the )?(?:host|address|domain|dns|proxy|server|['\"]?[\w-]+(?:\.[\w-]+)+)",
        "host domain server dns address": r"(?:host|hostname|domain|domain name|server) not found|dns (?:lookup|error|failure|resolution)|no address associated|unknown host",
        "ssl tls remote incomplete proxy": r"(?:ssl|tls)\b[\w :]{0,20}\b(?:handshake|error|failure|alert)|remote end closed|incomplete ?read|proxy error",
        "タイムアウト ネットワーク ホスト 名前解決 接続 時間切れ 証明書の検証 通信": "タイムアウト(?!の?(?:値|設定|秒数|時間|パラメータ)|は|していません)|時間切れ|証明書の検証|接続(?:が|を|に|は)?(?:拒否|切断|リセット|失敗|できません|エラー|タイムアウト)|(?:通信|ネットワーク)(?:エラー|障害|に失敗|が切断)|名前解決|ホスト(?:が|名が|名を)?(?:見つかり|解決)",
    },
}
"""Regular expressions for lowercase text, by category; ASCII ones match whole words only.

A text that matches has one of the words before the pattern."""

_NOT_AN_AMOUNT = r"(?! ?(?:usd|eur|gbp|jpy|dollars?|euros?|yen|percent|%|rows?|records?|items?|files?|bytes|[km]b|ms|seconds?|points)(?!\w))"
STATUS_PATTERNS: dict[str, str] = {
    # HTTP 503, HTTP/1.1 503, status 503, status code: 503, error code 503, code=503, error 503
    "http status error response code ステータス エラー": r"(?:\bhttp(?:/\d(?:\.\d)?)?(?: error)?(?: status)?(?: code)?(?=[\s:=#]|[^\x00-\x7f]|\d{3})|(?<!exit )\bstatus(?:[ _]?code)?|\berror(?: code)?|\bresponse(?: code)?|(?<!exit )\bcode|"
    r"(?:ステータス|エラー)(?:コード)?)"
    r"(?:['\"]?\s*[:=#]\s*|\s+|(?<=[^\x00-\x7f])|(?<=http))[\[('\"]?(?P<named>[1-5]\d\d)(?![\w]|[.,:/-]\w)"
    + _NOT_AN_AMOUNT,
    # failed: 503, failed with 404
    "failed": r"\bfailed(?: with|:) (?P<failed>[45]\d\d)(?![\w]|[.,:/-]\w)" + _NOT_AN_AMOUNT,
    # 503エラー
    "エラー": r"(?<![\w./:-])(?P<japanese>[45]\d\d)(?= ?エラー)",
    # returned 503, got 503 from …; a count of things is not a status
    "returned responded answered replied got received": r"\b(?:returned|responded with|answered(?: with)?|replied(?: with)?|got|received)(?: an?)? (?P<verbed>[45]\d\d)"
    r"(?=\s*(?:\Z|[.,;:!)\]'\"]|\b(?:from|for|when|while|on|at|status|response|error)\b))",
    # 503 Service Unavailable, 404 not found, 429 too many
    "error bad unauthori required forbidden found allowed acceptable request conflict gone precondition payload unsupported unprocessable locked early many "
    "internal implemented service gateway version": r"(?<![\w./:-])(?<!row )(?<!line )(?<!record )(?<!column )"
    r"(?:(?=4\d\d[ :,-]{1,3}(?:client error|bad request|unauthori[sz]ed|payment required|forbidden|not found|method not allowed|not acceptable|"
    r"request time-?out|conflict|gone|precondition failed|payload too large|unsupported media type|unprocessable|locked|too early|too many (?:requests|attempts|calls)))|"
    r"(?=5\d\d[ :,-]{1,3}(?:server error|bad gateway|internal server|not implemented|service (?:temporarily )?unavailable|gateway time-?out|http version)))"
    r"(?P<phrased>[45]\d\d)",
    # the status alone, or in brackets of its own
    "4 5": r"\A\s*(?P<alone>[45]\d\d)\s*\Z",
}
"""The patterns of a status in a lowercase text; a text that matches has one of the words before it."""

_ADDRESS = (
    r"[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>]+|(?<![\w/])[~.]{0,2}/[\w.-]+[\w./-]*|\b[a-z]:\\\S+|\S{1,80}@\S+|"
    r"(?<![\w/-])[\w-]+(?:/[\w-]+)+/?\.(?:md|log|txt|py|json|html?|csv|xml|ya?ml|toml)\b"
)
"""Addresses and paths, whose parts are names and not words of the message."""
_ANY_STATUS = r"(?<!\d)[45]\d\d(?!\d)"


def status_in_text(text: str) -> int | None:
    """Return the first HTTP status of a failure in a lowercase text, or None."""
    if not compiled(_ANY_STATUS, re.ASCII).search(text):
        return None
    patterns = [pattern for words, pattern in STATUS_PATTERNS.items() if has_word(text, words)]
    for match in compiled("|".join(patterns), re.ASCII).finditer(text):
        status = int(match[match.lastgroup or 0])
        if status >= 400:  # below are successes and redirects
            return status
    return None


def read_text(text: str) -> "Iterator[tuple[Category, str, int | None]]":
    """Yield the readings of a text, permanent ones before retryable ones.

    Yields:
        Category, the matched words or rule name, and the HTTP status if the text contains one.
    """
    text = text[:TEXT_LIMIT]
    coded = code_in_text(text)
    if coded is not None:
        yield coded[0], coded[1], None
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if "/" in text or "\\" in text or "@" in text:
        text = compiled(_ADDRESS, re.IGNORECASE).sub(" … ", text)
    low = text.lower()
    if len(low) != len(text):  # some letters become two
        text = low
    status = status_in_text(low)
    judged = judge_status(Evidence(http_status=status, body=low)) if status is not None else None
    readings = [(judged[0], judged[1], status)] if judged else []
    if (limit := judge_quota(low)) is not None:
        readings.append((limit[0], quote(text, limit[1]), None))
    for category, phrases in ((Category.DATA, DATA_TEXTS), *PHRASES.items()):
        if category is Category.ACCESS_DENIED and judged and judged[0] is Category.RATE_LIMIT:
            continue  # the 'Forbidden' of a 403 that is really a rate limit
        match = first_match(low, phrases)
        if match is not None:
            readings.append((category, quote(text, match.span()), None))
    if judged and judged[0] in RETRYABLE:
        yield readings.pop(0)  # other words do not make a 5xx permanent
    yield from sorted(readings, key=lambda reading: reading[0] in RETRYABLE)
