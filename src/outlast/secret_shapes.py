"""Secrets that can be recognised without a name: tokens by their form, and other secrets by the text around them.

The prefixes of tokens are those that the vendors document and that public secret scanners (gitleaks, detect-secrets,
secretlint, trufflehog) look for. Lengths are shorter than the real ones, because a cut secret is a secret too, unless
the prefix is so short that ordinary words begin with it.

A hint is a word that a text contains whenever the pattern matches, so that most patterns are never compiled. Hints of
tokens are case-sensitive, as tokens are; those of other shapes are in lowercase and compared with the lowercase text.
"""

TOKENS = (
    # vendor, pattern, hints
    ("1Password", r"ops_eyJ[\w+/=-]{10,}|A3-[A-Z0-9]{6}-[A-Z0-9]{5,11}(?:-[A-Z0-9]{5}){2,4}", "ops_eyJ A3-"),
    ("Adafruit", r"aio_[A-Za-z0-9]{20,}", "aio_"),
    ("Adobe", r"p8e-[A-Za-z0-9]{16,}", "p8e-"),
    ("age", r"AGE-SECRET-KEY-1[A-Za-z0-9]{10,}", "AGE-SECRET-KEY-"),
    ("Alibaba", r"LTAI[A-Za-z0-9]{12,}", "LTAI"),
    ("Apify", r"apify_api_[\w-]{10,}", "apify_api_"),
    ("Artifactory", r"AKC[a-z][A-Za-z0-9]{10,}|cmVmd[A-Za-z0-9]{20,}", "AKC cmVmd"),
    ("Atlassian", r"AT(?:ATT3|CTT3|BB)[\w=+/.-]{10,}|BBDC-[\w+/@-]{20,}", "ATATT3 ATCTT3 ATBB BBDC-"),
    ("Authress", r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][\w.+/=-]{20,}", ".acc"),
    ("AWS",
        (r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|AIPA|ANPA|ANVA)[A-Z0-9]{8,}|ABSK[A-Za-z0-9+/=]{20,}|"
        r"bedrock-api-key-[\w+/=-]{10,}"),
        "AKIA ASIA A3T ABIA ACCA AROA AIDA AGPA AIPA ANPA ANVA ABSK bedrock-api-key-"),
    ("Azure", r"[\w~.]{3}\dQ~[\w~.-]{20,}", "Q~"),
    ("Buildkite", r"bk[a-z]{2}_[a-z0-9]{20,}", "bkua_"),
    ("CircleCI", r"CCIPAT_[A-Za-z0-9_]{10,}", "CCIPAT_"),
    ("ClickUp", r"pk_\d{5,10}_[A-Z0-9]{20,}", "pk_"),
    ("ClickHouse", r"4b1d[A-Za-z0-9]{38}", "4b1d"),
    ("Clojars", r"CLOJARS_[A-Za-z0-9]{10,}", "CLOJARS_"),
    ("Cloudflare", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{20,}|cf(?:k|ut|at)_[A-Za-z0-9]{20,}", "v1.0- cfk_ cfut_ cfat_"),
    ("Contentful", r"CFPAT-[\w-]{10,}", "CFPAT-"),
    ("Databricks", r"dapi[0-9a-f]{20,}(?:-\d)?", "dapi"),
    ("Datadog", r"dd[pw]_[A-Za-z0-9]{20,}", "ddp_ ddw_"),
    ("Defined Networking", r"dnkey-[\w=-]{10,}", "dnkey-"),
    ("Dependency-Track", r"odt_[A-Za-z0-9_]{20,}", "odt_"),
    ("DigitalOcean", r"do[opr]_v1_[0-9a-f]{10,}", "_v1_"),
    ("Docker", r"dckr_[op]at_[\w-]{10,}", "dckr_"),
    ("Doppler", r"dp\.(?:ct|pt|st|sa|scim|audit)\.[\w.-]{10,}", "dp."),
    ("Dropbox", r"sl\.(?:u\.)?[\w-]{60,}", "sl."),
    ("Duffel", r"duffel_(?:test|live)_[\w=-]{10,}", "duffel_"),
    ("Dynatrace", r"dt0[a-z]\d\d\.[A-Za-z0-9.]{10,}", "dt0"),
    ("EasyPost", r"EZ[AT]K[A-Za-z0-9]{20,}", "EZAK EZTK"),
    ("Facebook", r"EAA[A-Z][\w-]{20,}", "EAA"),
    ("Figma", r"fig[a-z]_[\w-]{10,}", "figd_ figp_ figu_"),
    ("Fleetbase", r"flb_(?:live|test)_[A-Za-z0-9]{16,}", "flb_live_ flb_test_"),
    ("Flexport", r"shltm_[\w-]{30,}", "shltm_"),
    ("Flutterwave", r"FLW(?:SEC|PUB)K(?:_TEST)?-[A-Za-z0-9]{10,}(?:-X)?", "FLWSECK FLWPUBK"),
    ("Fly.io", r"fo1_[\w-]{20,}|fm[12][ar]?_[\w+/=,-]{20,}", "fo1_ fm1 fm2_"),
    ("Frame.io", r"fio-u-[\w=-]{10,}", "fio-u-"),
    ("GitHub", r"(?:gh[pousr]|github_pat)_[\w.-]{10,}", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_"),
    ("GitLab",
        r"gl(?:pat|dt|ffct|ft|imt|agent|oas|ptt|rt|rtr|soat|cbt|wt)-[\w.-]{10,}|GR1348941[\w-]{10,}",
        "glpat- gldt- glffct- glft- glimt- glagent- gloas- glptt- glrt glsoat- glcbt- glwt- GR1348941"),
    ("Google", r"AIza[\w-]{10,}|ya29\.[\w.-]{10,}|GOCSPX-[\w-]{10,}|1//0[\w-]{20,}", "AIza ya29. GOCSPX- 1//0"),
    ("Grafana", r"gl(?:c|sa)_[\w+/=]{10,}", "glc_ glsa_"),
    ("Groq", r"gsk_[A-Za-z0-9]{10,}", "gsk_"),
    ("Harness", r"[ps]at\.[\w-]{22}\.[0-9A-Za-z]{16,}\.[0-9A-Za-z]{10,}", "pat. sat."),
    ("Heroku", r"HRKU-[\w-]{10,}", "HRKU-"),
    ("HubSpot", r"pat-(?:eu|na)\d-[0-9A-Za-z-]{10,}", "pat-"),
    ("Hugging Face", r"(?:hf|api_org)_[A-Za-z0-9]{20,}", "hf_ api_org_"),
    ("Infracost", r"ico-[A-Za-z0-9]{24,}", "ico-"),
    ("Intra42", r"s-s4t2(?:ud|af)-[0-9a-f]{10,}", "-s4t2"),
    ("Ionic", r"ion_[A-Za-z0-9]{36,}", "ion_"),
    ("JWT", r"(?:eyJ|ewogIC|ewoid)[\w-]{8,}(?:\.[\w-]*){0,4}|ZXlK[\w+/=-]{20,}", "eyJ ewogIC ewoid ZXlK"),
    ("LangSmith", r"lsv2_[a-z]{2}_[0-9a-f_]{10,}", "lsv2_"),
    ("Linear", r"lin_(?:api|oauth)_[\w]{10,}", "lin_api_ lin_oauth_"),
    ("Lob", r"(?<!_)(?:live|test)_(?:pub_)?[0-9a-f]{31,}", "live_ test_"),
    ("Mailgun", r"(?:pub)?key-[0-9a-z]{32}", "key-"),
    ("Mapbox", r"[ps]k\.[A-Za-z0-9]{50,}\.[\w-]{20,}", "pk. sk."),
    ("MaxMind", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", "_mmk"),
    ("MongoDB", r"mdb_sa_sk_[\w-]{10,}", "mdb_sa_sk_"),
    ("Neon", r"napi_[a-z0-9]{20,}", "napi_"),
    ("Netlify", r"nf[a-z]_[\w-]{20,}", "nfp_ nfc_ nfo_ nfu_ nfb_"),
    ("New Relic",
        r"NR(?:AK|JS|II|IQ|BR|RA)-[\w-]{10,}|[0-9a-f]{30,}(?:FFFF|-)?NR(?:AL|MA)",
        "NRAK- NRJS- NRII- NRIQ- NRBR- NRRA- NRAL NRMA"),
    ("Notion", r"ntn_[A-Za-z0-9]{10,}|secret_[A-Za-z0-9]{32,}", "ntn_ secret_"),
    ("npm", r"npm_[A-Za-z0-9]{10,}", "npm_"),
    ("NuGet", r"oy2[a-z0-9]{43}", "oy2"),
    ("NVIDIA", r"nvapi-[\w-]{10,}", "nvapi-"),
    ("Octopus Deploy", r"API-[A-Z0-9]{20,}", "API-"),
    ("OpenAI",  # and others that took over its form: Anthropic, OpenRouter, DeepSeek, Langfuse
        r"sk-(?:ant|proj|svcacct|admin|or|lf)-[\w-]{10,}|sk-(?=[\w-]{0,60}\d)[\w-]{10,}|sk-[A-Za-z0-9]{32,}",
        "sk-"),
    ("OpenShift", r"sha256~[\w-]{10,}", "sha256~"),
    ("Ory", r"ory_[a-z]{2,3}_[\w-]{10,}", "ory_"),
    ("Pagar.me", r"ak_(?:live|test)_[A-Za-z0-9]{20,}", "ak_live_ ak_test_"),
    ("password hash",
        r"\$2[abxy]\$\d\d\$[\w./]{20,}|\$(?:[156y]|argon2(?:id?|d))\$[\w.,=$/+]{20,}|(?:pbkdf2_sha(?:1|256)|scrypt)\$\d+\$[\w.=$/+]{20,}",
        "$2 $1$ $5$ $6$ $y$ $argon2 pbkdf2_sha scrypt$"),
    ("PayPal", r"access_token\$(?:production|sandbox)\$[0-9a-z$]{10,}", "access_token$"),
    ("PEM in Base64", r"LS0tLS1CRUdJTi[\w+/=-]{20,}", "LS0tLS1CRUdJTi"),
    ("Perplexity", r"pplx-[A-Za-z0-9]{10,}", "pplx-"),
    ("Pinecone", r"pcsk_[\w]{10,}", "pcsk_"),
    ("Plaid", r"access-(?:sandbox|development|production)-[0-9a-f-]{10,}", "access-"),
    ("PlanetScale", r"pscale_(?:tkn|oauth|pw)_[\w=.-]{10,}", "pscale_"),
    ("PostHog", r"ph[xs]_[A-Za-z0-9_]{20,}", "phx_ phs_"),
    ("Postman", r"PMAK-[A-Za-z0-9-]{10,}", "PMAK-"),
    ("Prefect", r"pn[ub]_[A-Za-z0-9]{20,}", "pnu_ pnb_"),
    ("Pulumi", r"pul-[0-9a-z]{20,}", "pul-"),
    ("PyPI", r"pypi-[\w-]{10,}", "pypi-"),
    ("Razorpay", r"rzp_(?:live|test)_[A-Za-z0-9]{10,}", "rzp_"),
    ("ReadMe", r"rdme_[a-z0-9]{10,}", "rdme_"),
    ("Replicate", r"r8_[\w-]{20,}", "r8_"),
    ("Resend", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{16,}", "re_"),
    ("RubyGems", r"rubygems_[0-9A-Za-z]{10,}", "rubygems_"),
    ("Salesforce", r"00D[A-Za-z0-9]{12}![\w.]{20,}|5AEP861[\w.=]{20,}", "00D 5AEP861"),
    ("Scalingo", r"tk-us-[\w-]{20,}", "tk-us-"),
    ("Scrapfly", r"scp-(?:live|test)-[0-9a-f]{20,}", "scp-"),
    ("SendGrid", r"SG\.[\w.-]{10,}", "SG."),
    ("Sendinblue", r"x(?:key|smtp)sib-[\w-]{10,}", "xkeysib- xsmtpsib-"),
    ("Sentry", r"sntry[a-z]_[\w+/=]{10,}", "sntrys_ sntryu_"),
    ("SettleMint", r"sm_[aps]at_[A-Za-z0-9]{10,}", "sm_aat_ sm_pat_ sm_sat_"),
    ("Shippo", r"shippo_(?:live|test)_[0-9a-fA-F]{10,}", "shippo_"),
    ("Shopify", r"shp(?:at|ca|pa|ss|tka)_[0-9a-zA-Z]{10,}", "shpat_ shpca_ shppa_ shpss_ shptka_"),
    ("Slack", r"xox[a-z](?:\.xox[bp])?-[\w-]{10,}|xapp-[\w-]{10,}|xwfp-[\w-]{10,}", "xox xapp- xwfp-"),
    ("SonarQube", r"sq[upa]_[0-9a-z]{20,}", "squ_ sqp_ sqa_"),
    ("Sourcegraph", r"sgp_[0-9A-Za-z_]{20,}|slk_[0-9a-f]{20,}", "sgp_ slk_"),
    ("Square", r"sq0[a-z]{3}-[\w-]{10,}", "sq0"),
    ("Stripe",
        r"(?:[rs]k_(?:live|test|prod)|whsec)_[\w+/=-]{10,}|sk_[0-9a-f]{40,}",
        "k_live_ k_test_ k_prod_ whsec_ sk_"),
    ("Supabase", r"sbp_[0-9a-z_]{20,}|sb_secret_[\w-]{10,}", "sbp_ sb_secret_"),
    ("Tailscale", r"tskey-[a-z]+-[\w-]{10,}", "tskey-"),
    ("Tavily", r"tvly-[\w-]{16,}", "tvly-"),
    ("Teamwork", r"tkn\.v1_[\w=-]{20,}", "tkn.v1_"),
    ("Telegram", r"\d{6,16}:AA[\w-]{20,}", ":AA"),
    ("Telnyx", r"KEY[0-9A-Z][\w-]{50,}", "KEY"),
    ("Terraform", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{20,}", ".atlasv1."),
    ("Together", r"tgp_v1_[\w-]{10,}", "tgp_v1_"),
    ("Twitter", r"A{22}[\w%]{20,}", "AAAAAAAAAAAAAAAAAAAAAA"),
    ("Typeform", r"tfp_[\w.=-]{20,}", "tfp_"),
    ("Ubidots", r"BBFF-[A-Za-z0-9]{20,}", "BBFF-"),
    ("Vault", r"hv[sbr]\.[\w-]{10,}|s\.(?=[A-Za-z]*\d)[A-Za-z0-9]{24}(?![\w.])", "hvs. hvb. hvr. s."),
    ("Vercel", r"vc[piark]_[A-Za-z0-9]{20,}", "vcp_ vci_ vca_ vcr_ vck_"),
    ("xAI", r"xai-[\w]{20,}", "xai-"),
    ("Yandex", r"t1\.[\w-]{10,}={0,2}\.[\w-]{60,}={0,2}|AQVN[\w-]{30,}", "t1. AQVN"),
)  # fmt: skip

LONG_WORD = 32
LONG_TOKENS = (
    # vendor, pattern, hint: their prefixes are too common or missing, so they are only looked for in words of this length
    ("Airtable", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}", "pat"),
    ("Asana", r"[0-9]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}", ":"),
    ("AWS secret key",
        (r"(?<![\w/+])(?![a-z\d]{1,30}/[a-z]{3,30}/)(?=[A-Za-z0-9/+]{40}(?![\w/+=]))(?=[\w/+]{0,39}[A-Z])"
        r"(?=[\w/+]{0,39}[a-z])(?=[\w/+]{0,39}\d)[A-Za-z0-9/+]{40}"),  # not the path of a URL
        ""),
    ("Azure key", r"[A-Za-z0-9+/]{86}==", "=="),
    ("Azure DevOps", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", "AZDO"),
    ("Discord", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}", "."),
    ("Facebook", r"\d{15,16}\|[\w-]{27,40}", "|"),
    ("Mailchimp", r"[0-9a-f]{32}-us\d{1,2}(?!\w)", "-us"),
    ("Mailgun", r"[0-9a-h]{32}-[0-9a-h]{8}-[0-9a-h]{8}(?![\w-])", "-"),
    ("Twilio", r"(?:SK|AC)[0-9a-f]{32}(?!\w)", ""),
    ("Yandex", r"YC[\w-]{38}(?![\w-])", "YC"),
    ("Zoho", r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}", "1000."),
)  # fmt: skip

LINE_BREAK = r"(?:\n|\\{1,8}n)"
"""A line break, also escaped once or more often, as in JSON inside JSON."""
_LINE_BREAK = rf"(?:\\{{1,8}}r|\ufffd)?{LINE_BREAK}"  # also escaped, as in a line of JSON; a carriage return is no longer in the text
_SCHEME = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://"
_INSIDE_TAG = r"[^<>]"
_ATTRIBUTE = r"(?:value|content)=\s*(?P<secret>\\*\"[^\"]*|\\*'[^']*|[^\s>]+)"
_BETWEEN = r"[\"',=\s]"  # between an option and its value, in a line or in a list
_PLACEHOLDERS = r"\((?:%s|%\(\w+\)s|\?|[:@]\w+|\$\d+|[\s,]|default|null|now\(\))*+\)"

SHAPES = (
    # hints (separated by |), pattern. The group `secret` of a pattern is masked; without it, one value follows the match. If there is a group
    # `names`, one of them must be a secret name.
    ("private",
        r"(?P<secret>-{4,5} ?BEGIN[ +_A-Z0-9-]{0,60}PRIVATE[ +_]KEY(?:[ +_]BLOCK)? ?-{4,5}.*?(?:-{4,5} ?END[ +_A-Z0-9-]{0,60}-{4,5}|$))"),
    ("private-lines", r"private-lines:\s*\d+\s*(?P<secret>.+?)(?=private-mac|$)"),
    # scheme://user:password@host, and scheme://token@host; the greedy run reaches the last @, as a parser would
    ("@", rf"(?:{_SCHEME}|(?<![:/\w])//)(?P<secret>[^\s/?#'\"<>]{{1,2000}})@"),
    # the same with an unencoded slash in the password; a port before a path is not a password
    ("@", rf"{_SCHEME}(?P<secret>[^\s/:@?#'\"<>]{{0,100}}:(?!\d+(?:[/?#]|$))[^\s@\"<>]{{1,200}})@"),
    # user info cut off by the end of the text
    ("://", rf"{_SCHEME}(?P<secret>[^\s/:@?#'\"<>]{{1,100}}:(?!\d{{1,5}}[).,;:\]]{{0,3}}$)[^\s/@?#'\"<>]{{1,2000}})$"),
    # user:password@host:port without a scheme; other words before a colon are those of addresses and images
    ("@",
        (r"(?<![\w.@/:%+-])(?!(?:mailto|to|from|cc|bcc|e?mail|sips?|xmpp|acct|jid|user(?![^\s@]{1,128}@[\w.-]+:\d)|sender|reply-to|author|by|npm|image):)"
        r"[\w.+-]{1,64}:(?=[^\s@]{1,128}@)(?!//)(?P<secret>(?=[^@]+@(?!sha\d)(?:(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5}(?![\w.])|/\w)))[^\s@/'\"<>,]{1,128}|"
        r"(?=[^\s@]{0,128}[^\w\s@.:-]|(?-i:(?=[^\s@]{0,128}[a-z])(?=[^\s@]{0,128}[A-Z])(?=[^\s@]{0,128}\d)))"
        r"[^\s@/'\"<>,]{8,128}(?=@(?!sha\d)[a-z]))@")),
    ("jdbc:oracle|sqlplus",
        r"(?:jdbc:oracle:\w{1,10}:|sqlplus(?:\s+-\w+)*\s+)[\w$#]{1,64}/(?P<secret>[^\s@]{1,128})(?:@|$)"),
    # the path of an incoming webhook is its secret
    ("hooks.|webhook|/with/key/|/soap/|infura.io|alchemy|/hook/",
        (r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/|"
        r"hooks\.zapier\.com/hooks/catch/|\.webhook\.office\.com/webhookb2/|outlook\.office\.com/webhook/|\.tines\.com/webhook/|"
        r"/with/key/|infura\.io/(?:ws/)?v3/|alchemy\.com/v2/|/open-apis/bot/v2/hook/|api\.softlayer\.com/soap/v3(?:\.1)?/)(?P<secret>[\w/@-]+)")),
    # a link that is valid once
    ("reset/|reset-password/|reset_password/|invite/|activate/|magic-link/",
        r"/(?:[\w-]{0,20}reset|reset[-_]password|invite|activate|magic-link)/(?P<secret>(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[a-z])[\w.+~=-]{12,})"),
    ("/bot", r"/bot\d{5,}:(?P<secret>[\w-]{20,})"),
    # options of commands that have a password in a single letter: mysql -pS, sshpass -p S, redis-cli -a S, -u user:password
    ("-p",
        (r"\b(?:(?:mysql|mariadb|mongo|mycli|7z|rar|unrar|cqlsh|sshpass|psexec|rabbitmqadmin|twine)[\w-]{0,20}|"
        rf"(?:docker|podman|helm|az|oc)\b[^\n]{{0,40}}?\blogin)\b[^\n]{{0,300}}?[\s'\"](?-i:-p){_BETWEEN}*(?=[^\s'\"])")),
    ("-p", rf"\b(?:zip|unzip|sqlcmd|bcp|isql)\b[^\n]{{0,300}}?[\s'\"](?-i:-P){_BETWEEN}*(?=[^\s'\"])"),
    ("ssh-keygen", r"\bssh-keygen\b[^\n]{0,300}?[\s'\"](?-i:-N)(?:['\"],)?\s+(?!\\*['\"]\\*['\"])(?=\S)"),
    ("openssl ", r"\bopenssl \w[^\n]{0,200}? (?-i:-k) (?=\S)"),
    ("net use", r"\bnet use(?:r [^\s/]+| \S+) (?=[^\s/*]\S* /)"),
    ("securestring ", r"\bconvertto-securestring (?:-string )?(?=\\*['\"])"),
    ("user.info", r"\bauth\.user\.info['\"]?\s*[:=]\s*(?=\S)"),
    ("pass ", r"(?-i:(?:^|[\s'\"=])(?:-*>+|C:) PASS )(?=\S)"),
    ("htpasswd", r"\bhtpasswd [^\n]{0,100}?-\w*b\w* [^\s|]+ \S+ (?=\S)"),
    ("-a", rf"\b(?:redis-cli|https?|xh)\b[^\n]{{0,300}}?[\s'\"]-a{_BETWEEN}+(?=[^\s'\"])"),
    ("ldap", rf"\bldap[a-z]{{1,20}}\b[^\n]{{0,300}}?[\s'\"]-w{_BETWEEN}*(?=[^\s'\"])"),
    ("-u",
        rf"(?<![\w-])(?:-u|--user|--proxy-user)(?:{_BETWEEN}+|(?=[\w\\]{{1,64}}[:%]\w))(?=[^\s:'\"]{{0,64}}[:%])(?!\d+:\d+(?!\w))"),
    ("echo |printf ",
        (r"\b(?:echo|printf)\s+(?:-n\s+)?(?:\\*['\"]?%s(?:\\+n)?\\*['\"]?\s+)?+(?!\\*['\"]?\$)(?P<secret>[^|\n]{1,200}?)\s*\|"
        r"[^|\n]{0,200}?(?:password-stdin|pass(?:phrase|word)?-fd|with-token|\bsudo -S|\bchpasswd|\bpasswd|\bkinit)")),
    # rows and values that databases show with an error
    ("[parameters:", rf"\[parameters: (?P<secret>.+?)(?:\](?={_LINE_BREAK}|\s*$|\s*\()|$)"),
    ("failing row contains (",
        r"failing row contains \((?P<secret>[^\n]+?)(?:\)(?=\.?(?:\\{1,8}n|\\?['\"]|\s|$))|(?=\n)|$)"),
    (")=(", r"key \((?P<names>[^\n=]{1,300})\)=\((?P<secret>.+?)(?:\)(?= (?:already|is |conflicts))|(?=\n)|$)"),
    ("entry '|value: '|value '",
        r"(?:entry|value:?) '(?P<secret>[^\n]*?)(?:' for (?:key|column|parameter|field|argument|option|property) \\?['`](?P<names>[\w.-]{1,128})|(?=\n)|$)"),
    ("constant (", r"constant \((?P<secret>[^\n]{1,300}?)\) for \\*\"(?P<names>[\w.]{1,100})"),
    ("duplicate key value is (",
        r"constraint '(?P<names>[^']{1,128})'[^\n]{0,200}?duplicate key value is \((?P<secret>[^\n]+?)(?:\)(?=\.?(?:\s|$))|$)"),
    ("e11000", r"index: (?P<names>\S{1,128})\s+dup key: \{ ?(?P<secret>:[^\n}]+)"),
    ("values",
        (rf"(?P<names>\([^()]{{1,2000}}\)|\binto\s+[\w.]{{1,100}})\s*VALUES\s*(?!{_PLACEHOLDERS})"
        r"(?P<secret>\(.*?\)(?=\s*(?:;|$|\n|\\{1,8}n|\\?[\"']\s*[,)\]}]|returning|on\s))|\(.*$)")),
    ("$", r"\$\d{1,3} = (?=')"),
    ("identified", r"\bidentified (?:with \S+ )?(?:by|as)\s+(?=['\"]|\S*\d)"),
    ("password", r"\b(?:with|set|encrypted) password\s+(?=['\"])|\bset password for \S+ = (?=['\"])"),
    ("acl setuser", r"\bacl setuser [^\n]{1,300}?\s>(?=\S)"),
    ("crypt(", r"\bcrypt\((?=')"),
    ("login ", r"(?-i:\bLOGIN (?![A-Z]+ ))\S{1,100} (?=\\*\")"),
    ("auth ", r"(?-i:\bAUTH (?:default |PLAIN |LOGIN |XOAUTH2 )?(?![A-Z\d_-]+\b))(?=\S*\d)(?=\S*[a-z])"),
    # what is used if a setting is missing: password = os.environ.get("DB_PASSWORD") or "…"
    ("or '|or \"|or \\|else '|else \"|else \\",
        r"(?<![\w.-])(?P<names>[\w.-]{1,100})\s{0,9}=(?!=)[^\n=]{1,200}?[\s)](?:or|else)\s{1,9}(?=\\*['\"])"),
    # calls with a secret among their arguments
    ("auth(|credential(", r"(?:(?:basic|digest|ntlm)auth|(?:ps|network)credential)\(\s*\\*(?:'[^'\n]*'|\"[^\"\n]*\"),\s*(?=\\*['\"])"),
    (".login(",
        r"\.login\((?:\\*b?(?:'[^'\n]{1,100}'|\"[^\"\n]{1,100}\")|(?:[\w.]{0,40}[._])?(?:user|username|email)),\s*(?=\\*b?['\"])"),
    ("set_password(", r"set_password\((?:[^(),\n]{0,100},\s*){0,2}(?=\\*['\"])"),
    ("hmac.new(|fernet(|jwt.", r"\b(?:(?:hmac\.new|fernet)\(|jwt\.(?:en|de)code\([^,\n]{1,200},)\s*(?=\\*b?\\*['\"])"),
    # what validators show
    ("failed validating",
        r"(?P<secret>'[^'\n]*'|\"[^\"\n]*\")(?= [^\n]{1,200}\s+failed validating [^\n]{1,100} in schema(?P<names>(?:\[[^\]\n]{1,80}\])+))"),
    ("rejected value", r"on field '(?P<names>[\w.-]{1,100})': rejected value (?=\[)"),
    # a secret of Kubernetes, in YAML or JSON
    ("kind",
        (r"kind\W{1,24}secret\b.{0,300}?(?:\b|\\n)(?:string)?data\\*['\"]?:\s?"
        rf"(?P<secret>\{{[^{{}}]*|(?:(?:{_LINE_BREAK})?[ \t]+(?:(?!\\{{1,8}}n)[^\n])+)+)")),
    # fields of forms: multipart, HTML and XML
    ("form-data",
        (rf"form-data;(?>[^\n]{{0,300}}?\bname=)\\*['\"]?(?P<names>[\w.\[\]-]{{1,100}}).{{0,150}}?{_LINE_BREAK}{_LINE_BREAK}"
        rf"(?P<secret>.+?)(?={_LINE_BREAK}--|$)")),
    ("value=|content=", rf"<(?P<names>\w{_INSIDE_TAG}*?)\b{_ATTRIBUTE}"),
    ("value=|content=", rf"<\w{_INSIDE_TAG}*?\b{_ATTRIBUTE}(?P<names>{_INSIDE_TAG}*)"),
    ("<value>", rf"<\w{_INSIDE_TAG}*?\bname=(?P<names>[^\s>]{{1,100}}){_INSIDE_TAG}*>\s*<value>(?P<secret>[^<]+)"),
    ("<key>|<td|<dd",
        (rf"<(?:key|t[hd]|dt)\b{_INSIDE_TAG}*>(?P<names>[^<>]{{1,100}})</\w{{2,3}}>"
        rf"\s*<(?:string|data|td|dd)\b{_INSIDE_TAG}*>(?P<secret>[^<]+)")),
    (">",
        (rf"<(?P<names>\w[\w:.-]{{0,80}}(?:\s{_INSIDE_TAG}*)?)>(?!(?:\s|\\*[\"'),.;\]}}])[^<]*(?:<(?![/!])|$))\s*(?:<!\[CDATA\[)?"
        r"(?P<secret>(?!<).[^<]*?)(?=\]\]>|<|$)")),
    # a header value that a client rejected, for instance because the key ends with a line break
    ("header value", r"header value:?\s+(?=\\*b?['\"])"),
    ("bearer",
        (r"\bbearer:?\s+(?=\\*['\"]\w)|\bbearer\s+(?=[\w.~+/=-]*[\d.~+/-]|\w{20}|(?-i:\w*[a-z][A-Z]))(?!\w+=(?:\w|\\*['\"]))"
        r"(?=[\w.~+/=-]{10})")),
    ("basic|token|apikey",
        (r"(?-i:\b(?:[Bb]asic|BASIC|[Tt]oken|[Aa]pi[Kk]ey)\s+(?=[\w.~+/=-]*(?:[\d=~+]|[a-z][A-Z]))(?!\w+=(?:\w|['\"]))"
        r"(?=[\w.~+/=-]{8}))")),
    # settings that are written without a separator
    ("setx |config set |env ", r"(?:\bsetx|\bconfig set|(?:^|\n|\")\s*env)[ ](?P<names>[\w./:-]{1,100})[ ]+(?=[^\s=])"),
    ("machine ", r"\bmachine \S+\s+login \S+\s+password\s+"),
    ("provided: ", r"\b(?:key|token|secret|password) provided: (?=\S*\d)"),
    ("aws_", r"\bset\s+aws_(?:secret_access_key|session_token)\s+"),
)  # fmt: skip
