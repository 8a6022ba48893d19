"""Shapes of secrets in texts, and texts without secrets.

The values are made up: words, or characters drawn from a seeded generator. The prefixes and lengths of tokens are those
that vendors publish and that gitleaks, detect-secrets, secretlint and trufflehog look for.
"""

import random
import string
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
VALUES = ("S3cr3tV4lue9", "mulberryharborlantern", "Xk9-mQ2_vT7.pLw4")
"""Three values for each shape: mixed, letters alone, with punctuation that each notation can hold."""
ODD_VALUES = ("ab;S3cr3tV4l", "p#ss!w0rd$Zed", "a,bcdef9ghij")
"""Values with characters that separate fields elsewhere."""

RANDOM_VALUES = ("Tr0ub4dor+Zq8", "S3cr3tV4lue9", "h0rSe-9Battery_7st")
"""Values that look random, which are found without a separator before them."""

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL_SAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"

TOKENS = [
    # vendor, text before the random part, its characters, its length, text after it
    ("1Password", "ops_eyJ", ALNUM, 250, ""), ("1Password", "A3-ABC123-", UPPER, 11, "-XY7Z2-AB3DE-QW9ER"),
    ("Adafruit", "aio_", ALNUM, 28, ""), ("Adobe", "p8e-", LOWER, 32, ""), ("age", "AGE-SECRET-KEY-1", UPPER, 58, ""),
    ("Airtable", "patAbC1dEf2GhI3jK.", HEX, 64, ""), ("Alibaba", "LTAI", ALNUM, 20, ""), ("Apify", "apify_api_", ALNUM, 36, ""),
    ("Artifactory", "AKCp", ALNUM, 69, ""), ("Artifactory", "cmVmd", ALNUM, 59, ""),
    ("Atlassian", "ATATT3", URL_SAFE, 186, ""), ("Atlassian", "ATCTT3", URL_SAFE, 100, "=1A2B3C4D"), ("Atlassian", "ATBB", ALNUM, 32, ""),
    ("Atlassian", "BBDC-", ALNUM, 44, ""), ("Authress", "sc_abcdef12.ab12.acc-", LOWER, 10, ".QmFzZTY0QmFzZTY0QmFzZTY0QmFzZTY0"),
    *[("AWS", prefix, UPPER, 16, "") for prefix in
      ("A3TX", "AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA", "AGPA", "AIPA", "ANPA", "ANVA")],
    ("AWS", "ABSK", BASE64, 109, ""), ("AWS", "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", ALNUM, 20, ""),
    ("Azure", "aB18Q~", URL_SAFE, 33, ""), ("Buildkite", "bkua_", LOWER, 40, ""), ("CircleCI", "CCIPAT_", ALNUM, 22, "_0123456789abcdef0123"),
    ("ClickUp", "pk_1234567_", UPPER, 32, ""), ("Dependency-Track", "odt_", ALNUM, 32, ""), ("Dropbox", "sl.", URL_SAFE, 130, ""),
    ("Dropbox", "sl.u.", URL_SAFE, 130, ""), ("Fleetbase", "flb_live_", ALNUM, 20, ""), ("Flexport", "shltm_", URL_SAFE, 40, ""), ("Ionic", "ion_", ALNUM, 42, ""),
    ("NuGet", "oy2", LOWER, 43, ""), ("Pagar.me", "ak_live_", ALNUM, 30, ""), ("Scrapfly", "scp-live-", HEX, 32, ""), ("Scrapfly", "scp-test-", HEX, 32, ""),
    ("Sourcegraph", "slk_", HEX, 64, ""), ("Segment", "sgp_", ALNUM, 64, ""), ("Teamwork", "tkn.v1_", ALNUM, 64, "="), ("Telnyx", "KEY0", URL_SAFE, 56, ""),
    ("Ubidots", "BBFF-", ALNUM, 30, ""), ("Asana", "1/1234567890123456:", HEX, 32, ""), ("Azure DevOps", "", ALNUM, 76, "AZDObQ3x"),
    *[("password hash", before, ALNUM, 53, "") for before in ("$2b$12$", "$2a$10$", "$6$rounds=5000$", "$5$", "$1$", "$y$")],
    ("password hash", "$argon2id$v=19$m=65536,t=3,p=4$", ALNUM, 43, ""), ("password hash", "pbkdf2_sha256$600000$", ALNUM, 44, "="),
    ("password hash", "scrypt$16384$", ALNUM, 44, "="),
    ("ClickHouse", "4b1d", ALNUM, 38, ""), ("Clojars", "CLOJARS_", LOWER, 60, ""), ("Cloudflare", "v1.0-0123456789abcdef01234567-", HEX, 146, ""),
    ("Cloudflare", "cfk_", ALNUM, 48, ""), ("Cloudflare", "cfut_", ALNUM, 48, ""), ("Cloudflare", "cfat_", ALNUM, 48, ""),
    ("Contentful", "CFPAT-", URL_SAFE, 43, ""), ("Databricks", "dapi", HEX, 32, "-2"), ("Datadog", "ddp_", ALNUM, 36, ""),
    ("Datadog", "ddw_", ALNUM, 36, ""), ("Defined Networking", "dnkey-", LOWER, 26, "-abcdefghij0123456789abcdefghij0123456789"),
    *[("DigitalOcean", f"do{kind}_v1_", HEX, 64, "") for kind in "opr"],
    ("Docker", "dckr_pat_", URL_SAFE, 27, ""), ("Docker", "dckr_oat_", URL_SAFE, 32, ""),
    *[("Doppler", f"dp.{kind}.", ALNUM, 43, "") for kind in ("ct", "pt", "st", "sa", "scim", "audit")],
    ("Duffel", "duffel_test_", URL_SAFE, 43, ""), ("Duffel", "duffel_live_", URL_SAFE, 43, ""),
    ("Dynatrace", "dt0c01.", UPPER, 24, ".ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), ("EasyPost", "EZAK", ALNUM, 54, ""), ("EasyPost", "EZTK", ALNUM, 54, ""),
    ("Facebook", "EAAM", ALNUM, 110, ""), ("Facebook", "EAAC", ALNUM, 110, ""), ("Facebook", "123456789012345|", URL_SAFE, 27, ""),
    ("Figma", "figd_", URL_SAFE, 43, ""), ("Figma", "figp_", URL_SAFE, 43, ""), ("Figma", "figu_", URL_SAFE, 43, ""),
    ("Flutterwave", "FLWSECK_TEST-", HEX, 32, "-X"), ("Flutterwave", "FLWSECK-", LOWER, 32, "-X"), ("Flutterwave", "FLWPUBK_TEST-", HEX, 32, "-X"),
    ("Fly.io", "fo1_", URL_SAFE, 43, ""), ("Fly.io", "fm1a_", BASE64, 100, ""), ("Fly.io", "fm1r_", BASE64, 100, ""), ("Fly.io", "fm2_", BASE64, 100, ""),
    ("Frame.io", "fio-u-", URL_SAFE, 64, ""),
    *[("GitHub", f"gh{kind}_", ALNUM, 36, "") for kind in "pousr"], ("GitHub", "github_pat_", ALNUM, 82, ""),
    *[("GitLab", f"gl{kind}-", URL_SAFE, 20, "") for kind in
      ("pat", "dt", "ffct", "ft", "imt", "agent", "oas", "ptt", "rt", "rtr", "soat", "cbt", "wt")],
    ("GitLab", "GR1348941", URL_SAFE, 20, ""),
    ("Google", "AIza", URL_SAFE, 35, ""), ("Google", "ya29.", URL_SAFE, 60, ""), ("Google", "GOCSPX-", URL_SAFE, 28, ""), ("Google", "1//0", URL_SAFE, 60, ""),
    ("Grafana", "glc_", BASE64, 64, ""), ("Grafana", "glsa_", ALNUM, 32, "_0a1b2c3d"), ("Groq", "gsk_", ALNUM, 52, ""),
    ("Harness", "pat.abcdefghij0123456789AB.", ALNUM, 24, ".abcdefghij0123456789"), ("Harness", "sat.abcdefghij0123456789AB.", ALNUM, 24, ".abcdefghij0123456789"),
    ("Heroku", "HRKU-AA", URL_SAFE, 58, ""), ("HubSpot", "pat-na1-", HEX, 36, ""), ("HubSpot", "pat-eu1-", HEX, 36, ""),
    ("Hugging Face", "hf_", string.ascii_letters, 34, ""), ("Hugging Face", "api_org_", string.ascii_letters, 34, ""),
    ("Infracost", "ico-", ALNUM, 32, ""), ("Intra42", "s-s4t2ud-", HEX, 64, ""), ("Intra42", "s-s4t2af-", HEX, 64, ""),
    ("JWT", "eyJhbGciOiJIUzI1NiJ9.eyJ", ALNUM, 40, ".dozjgNryP4J3jVmNHl0w5N"), ("JWT", "ewogICJhbGciOi", ALNUM, 40, ".ewoid"), ("JWT", "ewoid", ALNUM, 40, ""),
    ("JWT", "ZXlK", ALNUM, 80, ""), ("LangSmith", "lsv2_pt_", HEX, 32, "_0123456789"), ("LangSmith", "lsv2_sk_", HEX, 32, "_0123456789"),
    ("Linear", "lin_api_", ALNUM, 40, ""), ("Linear", "lin_oauth_", ALNUM, 40, ""), ("Lob", "live_", HEX, 35, ""), ("Lob", "test_", HEX, 35, ""),
    ("Lob", "live_pub_", HEX, 31, ""), ("Mailgun", "key-", HEX, 32, ""), ("Mailgun", "pubkey-", HEX, 32, ""),
    ("Mapbox", "pk.", ALNUM, 60, ".abcdefghij0123456789AB"), ("Mapbox", "sk.", ALNUM, 60, ".abcdefghij0123456789AB"), ("MaxMind", "AbC123_", ALNUM, 29, "_mmk"),
    ("MongoDB", "mdb_sa_sk_", URL_SAFE, 40, ""), ("Neon", "napi_", LOWER, 60, ""),
    *[("Netlify", f"nf{kind}_", ALNUM, 40, "") for kind in "pcoub"],
    *[("New Relic", f"NR{kind}-", UPPER, 27, "") for kind in ("AK", "JS", "II", "IQ", "BR", "RA")],
    ("New Relic", "", HEX, 32, "FFFFNRAL"), ("New Relic", "", HEX, 40, "-NRMA"), ("Notion", "ntn_", ALNUM, 46, ""), ("Notion", "secret_", ALNUM, 43, ""),
    ("npm", "npm_", ALNUM, 36, ""), ("NVIDIA", "nvapi-", URL_SAFE, 64, ""), ("Octopus Deploy", "API-", UPPER, 26, ""),
    *[("OpenAI", f"sk-{kind}-", URL_SAFE, 74, "") for kind in ("ant-api03", "proj", "svcacct", "admin", "or-v1", "lf")],
    ("OpenAI", "sk-", ALNUM, 48, ""), ("OpenShift", "sha256~", URL_SAFE, 43, ""), ("Ory", "ory_at_", URL_SAFE, 43, ""),
    ("PayPal", "access_token$production$", LOWER, 16, "$0123456789abcdef0123456789abcdef"), ("PEM in Base64", "LS0tLS1CRUdJTi", ALNUM, 80, ""),
    ("PayPal", "access_token$sandbox$", LOWER, 16, "$0123456789abcdef0123456789abcdef"), ("Perplexity", "pplx-", ALNUM, 48, ""),
    ("Pinecone", "pcsk_AbC12_", ALNUM, 63, ""), *[("Plaid", f"access-{kind}-", HEX, 36, "") for kind in ("sandbox", "development", "production")],
    *[("PlanetScale", f"pscale_{kind}_", URL_SAFE, 43, "") for kind in ("tkn", "oauth", "pw")], ("PostHog", "phx_", ALNUM, 43, ""),
    ("PostHog", "phs_", ALNUM, 43, ""), ("Postman", "PMAK-", HEX, 24, "-0123456789abcdef0123456789abcdef01"), ("Prefect", "pnu_", ALNUM, 36, ""),
    ("Prefect", "pnb_", ALNUM, 36, ""), ("Pulumi", "pul-", HEX, 40, ""), ("PyPI", "pypi-AgEIcHlwaS5vcmc", URL_SAFE, 70, ""),
    ("Razorpay", "rzp_live_", ALNUM, 14, ""), ("Razorpay", "rzp_test_", ALNUM, 14, ""), ("ReadMe", "rdme_", LOWER, 70, ""), ("Replicate", "r8_", ALNUM, 37, ""),
    ("Resend", "re_AbCd1234_", ALNUM, 24, ""), ("RubyGems", "rubygems_", HEX, 48, ""), ("Salesforce", "00DAbc123Def456!", ALNUM, 96, ""),
    ("Salesforce", "5AEP861", ALNUM, 80, ""), ("Scalingo", "tk-us-", URL_SAFE, 48, ""), ("SendGrid", "SG.", URL_SAFE, 22, ".abcdefghijABCDEFGHIJ0123456789"),
    ("Sendinblue", "xkeysib-", HEX, 64, "-AbCdEf0123456789"), ("Sendinblue", "xsmtpsib-", HEX, 64, "-AbCdEf0123456789"), ("Sentry", "sntryu_", HEX, 64, ""),
    ("Sentry", "sntrys_eyJpYXQiO", ALNUM, 100, ""), *[("SettleMint", f"sm_{kind}at_", ALNUM, 16, "") for kind in "aps"], ("Shippo", "shippo_live_", HEX, 40, ""),
    ("Shippo", "shippo_test_", HEX, 40, ""), *[("Shopify", f"shp{kind}_", HEX, 32, "") for kind in ("at", "ca", "pa", "ss", "tka")],
    *[("Slack", f"xox{kind}-", "0123456789", 12, "-123456789012-AbCdEfGhIjKl") for kind in "abeoprs"], ("Slack", "xoxe.xoxb-1-", UPPER, 160, ""),
    ("Slack", "xoxe.xoxp-1-", UPPER, 160, ""), ("Slack", "xapp-1-A0123-", "0123456789", 12, "-abcdef0123456789"), ("Slack", "xwfp-", ALNUM, 30, ""),
    *[("SonarQube", f"sq{kind}_", HEX, 40, "") for kind in "upa"], ("Sourcegraph", "sgp_", HEX, 40, ""), ("Sourcegraph", "sgp_local_", HEX, 40, ""),
    ("Square", "sq0atp-", URL_SAFE, 22, ""), ("Square", "sq0csp-", URL_SAFE, 43, ""), ("Square", "sq0idp-", URL_SAFE, 22, ""), ("Square", "EAAA", URL_SAFE, 60, ""),
    *[("Stripe", f"{kind}_", ALNUM, 24, "") for kind in ("sk_live", "sk_test", "sk_prod", "rk_live", "rk_test", "rk_prod", "whsec")],
    ("Stripe", "sk_", HEX, 48, ""), ("Supabase", "sbp_", HEX, 40, ""), ("Supabase", "sb_secret_", URL_SAFE, 31, ""),
    ("Tailscale", "tskey-auth-", ALNUM, 16, "-AbCdEfGhIjKlMnOp0123"), ("Tavily", "tvly-", ALNUM, 32, ""), ("Telegram", "123456789:AA", URL_SAFE, 33, ""),
    ("Terraform", "AbCdEf01234567.atlasv1.", URL_SAFE, 67, ""), ("Together", "tgp_v1_", URL_SAFE, 43, ""), ("Twitter", "A" * 22, ALNUM, 80, ""),
    ("Typeform", "tfp_", URL_SAFE, 59, ""), *[("Vault", f"hv{kind}.", URL_SAFE, 95, "") for kind in "sbr"], ("Vault", "s.1", ALNUM, 23, ""),
    *[("Vercel", f"vc{kind}_", ALNUM, 24, "") for kind in "piark"], ("xAI", "xai-", ALNUM, 80, ""), ("Yandex", "t1.9euelZqanJuTk5c.", URL_SAFE, 86, ""),
    ("Yandex", "AQVN", URL_SAFE, 36, ""), ("Yandex", "YC", URL_SAFE, 38, ""),
    ("AWS secret key", "aB1", BASE64, 37, ""), ("Azure key", "", BASE64, 86, "=="), ("Discord", "M", ALNUM, 23, ".AbC1dE.abcdefghij0123456789ABCDEFG"),
    ("Discord", "N", ALNUM, 25, ".AbC1dE.abcdefghij0123456789ABCDEFG"), ("Discord", "O", ALNUM, 23, ".AbC1dE.abcdefghij0123456789ABCDEFG"),
    ("Mailchimp", "", HEX, 32, "-us17"), ("Mailgun", "", HEX, 32, "-0123abcd-4567cdef"), ("Twilio", "SK", HEX, 32, ""), ("Twilio", "AC", HEX, 32, ""),
    ("Zoho", "1000.0123456789abcdef0123456789abcdef.", HEX, 32, ""),
]  # fmt: skip


def tokens():
    """Yield vendor, prefix and three tokens of each published form."""
    drawn = random.Random(21)
    for vendor, before, characters, length, after in TOKENS:
        values = []
        while len(values) < 3:
            body = "".join(drawn.choice(characters) for _ in range(length))
            if body[0].isalnum() and body[-1].isalnum():
                values.append(f"{before}{body}{after}")
        yield vendor, before, values


PEM_BODY = "MIIEowIBAAKCAQEA{}\nabcdefghijklmnopqrstuvwxyz0123456789\nQ0NDQ=="
PEM_KINDS = ("RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "", "PGP ")

SHAPES = [
    # private keys
    *["-----BEGIN " + kind + "PRIVATE KEY-----\nMIIEowIBAAKCAQEA{}\n-----END " + kind + "PRIVATE KEY-----" for kind in PEM_KINDS],
    "could not load key: -----BEGIN RSA PRIVATE KEY-----\nMIIE{}\n-----END RSA PRIVATE KEY-----",
    "private_key='-----BEGIN PRIVATE KEY-----\\nMIIE{}\\n-----END PRIVATE KEY-----\\n'",
    '"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE{}\\n-----END PRIVATE KEY-----\\n", "client_id": "7"',
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOY{}\n-----END PGP PRIVATE KEY BLOCK-----",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nP2/56w{}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    "bad key -----BEGIN RSA PRIVATE KEY-----\nMIIE{}",
    "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\nAAAA{}",
    # URLs and addresses with user info
    "GET https://user:{}@example.com/path failed",
    "GET https://{}@example.com/path failed",
    "could not connect to postgresql://app:{}@db:5432/main",
    "redis://:{}@cache:6379/0 refused",
    "amqp://guest:{}@mq:5672//",
    "mongodb+srv://app:{}@cluster0.example.mongodb.net/?retryWrites=true",
    "jdbc:mysql://app:{}@db/main",
    "jdbc:oracle:thin:scott/{}@//db.example.com:1521/orcl",
    "sqlplus -S scott/{}@orcl failed",
    "https://{}:x-oauth-basic@github.com/org/repo.git",
    "https://acme:{}@acme.cloudant.com",
    "could not connect to app:{}@db.internal:5432",
    "FATAL: app:{}@localhost/main refused",
    "https://hooks.slack.com/services/T0000/B0000/{}",
    "https://hooks.slack.com/workflows/T0000/A0000/{}",
    "https://hooks.slack.com/triggers/T0000/{}",
    "https://discord.com/api/webhooks/123456789/{}",
    "https://discordapp.com/api/v10/webhooks/123456789/{}",
    "https://hooks.zapier.com/hooks/catch/{}",
    "https://acme.webhook.office.com/webhookb2/{}",
    "https://outlook.office.com/webhook/{}",
    "https://acme.tines.com/webhook/{}",
    "https://maker.ifttt.com/trigger/door_opened/with/key/{}",
    "https://api.softlayer.com/soap/v3/{}",
    # headers
    "Authorization: Bearer {}",
    "authorization: Basic {}",
    "Authorization: {}",
    "Proxy-Authorization: Basic {}",
    "{{'Authorization': 'token {}', 'Accept': '*/*'}}",
    "{{'Authorization': ['Bearer {}']}}",
    "('Authorization', 'Bearer {}')",
    "(b'cookie', b'sid={}')",
    'Authorization: Digest username="bob", response="{}"',
    "headers: {{'Cookie': 'sid={}; theme=dark'}}",
    "Cookie: theme=dark; sid={}",
    "Set-Cookie: sid={}; Path=/; HttpOnly",
    "X-Api-Key: {}",
    "x-auth-token={}",
    "X-Amz-Security-Token: {}",
    "Ocp-Apim-Subscription-Key: {}",
    "PRIVATE-TOKEN: {}",
    'got Bearer "{}"',
    "got Bearer '{}'",
    "Illegal header value b'{}\\n'",
    "Invalid character(s) in header value: '{}\\n'",
    "curl -H 'Authorization: Bearer {}' https://example.com failed",
    'curl -H "X-Api-Key: {}" https://example.com failed',
    # name = value
    "password={}", "password = {}", "password: {}", "password:{}", "password => {}", 'password := "{}"', "password == '{}'",
    "password === '{}'", "password != '{}'", "password ?= {}", "password＝{}", "password：{}", "PASSWORD={}", "Password: {}",
    "db_pass={}", "smtp_pass={}", "signingKey={}", "otp={}", "dsn={}", "password_confirmation={}", "contraseña={}", "密码: {}",
    "パスワード: {}", "пароль: {}", "passwort={}", "mot_de_passe={}", "senha={}", "consumerKey={}", "session={}", "session_id={}", "sessionid={}",
    "connection_string={}", "ConnectionString={}", "database_url={}", "DATABASE_URL={}", "webhook_url={}", "webhookUrl: '{}'", "client_secret={}",
    "api_key={}", "apiKey={}", "apikey: {}", "API key: {}", "access key: {}", "private key: '{}'", "Access Key ID: '{}'", "auth_token={}",
    "refresh_token: {}", "id_token={}", "csrf_token={}", "xsrf={}", "jwt={}", "pwd={}", "pw={}", "pin={}", "totp_seed={}", "passphrase={}",
    "passcode={}", "PGPASSWORD={}", "MYSQL_ROOT_PASSWORD={}", "encryption_key={}", "hmac_key={}", "ssh_key={}", "account_key={}", "shared_key={}",
    "aws_secret_access_key = {}", "X-Amz-Signature={}", "sig={}", "signature={}", "bearer={}", "credentials={}", "creds: {}", "auth={}", "authkey={}",
    "service_key={}", "db_key={}", "database_key={}", "priv_key={}", "client_key={}", "database_pass={}", "key_pass={}", "secret={}", "token={}",
    "spring.datasource.password={}", "config.token = '{}'", "_authToken={}", "//registry.npmjs.org/:_authToken={}", "password1={}",
    "AccountKey={};EndpointSuffix=core.windows.net", "SharedAccessSignature={}", "Server=db;Uid=sa;Pwd={};Database=x", "host=db user=app password={} dbname=x",
    "DRIVER={{ODBC}};UID=sa;PWD={{a;{}}};", "PWD={{{}}}", "cache.redis.cache.windows.net:6380,password={},ssl=True",
    "BUNDLE_GEMS__CONTRIBSYS__COM={}", 'administrator_login_password = "{}"', '<add key="ClearTextPassword" value="{}" />',
    "'secret_key' => '{}'", "password is '{}'", 'the password was "{}"', "token '{}' is invalid", 'invalid api_key "{}"', "os.environ['DB_PASSWORD'] = '{}'",
    "user[password]={}", "user%5Bpassword%5D={}",
    # quotes and brackets
    "password='{}'", 'password="{}"', "password=`{}`", "password='it''s{}'", "password='it\\'s{}'", "password='''{}'''", 'password="""{}"""',
    "password=b'{}'", "password=u'{}'", "password=r'{}'", "password='two words {}'", "password='foo\n{}'", "password='{} and no end", "password=''{}''",
    '{{"password": "{}"}}', '{{"password":"{}"}}', '{{"password": "ab\\"{}"}}', '{{\\"password\\": \\"{}\\"}}', '{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}',
    '{{"password": {{"value": "{}"}}}}', '{{"password": ["{}"]}}', '{{"password": {{"a": {{"b": "{}"}}}}}}', "{{'tokens': ['a', '{}']}}",
    "{{'token': ('a', '{}')}}", "auth=('bob', '{}')", "api_key=SecretStr('{}')", "login(user='a', password='{}')", "Settings(token={}, debug=True)",
    '{{"password":\n  "{}"}}', "&quot;password&quot;:&quot;{}&quot;", "&#34;token&#34;: &#34;{}&#34;", '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "{{'Key': 'api_token', 'Value': '{}'}}", "- name: DB_PASSWORD\n  value: {}", "[{{'loc': ('body', 'password'), 'msg': 'too short', 'input': '{}'}}]",
    '{{"loc":["body","api_key"],"msg":"bad","input":"{}"}}', "password: |\n  {}\n", "tls:\n  private_key: |\n    {}\n  port: 1", "password: >-\n  first\n  {}",
    "tokens:\n  - {}\n  - other", "password:\n  value: {}\n", "kind: Secret\nmetadata:\n  name: x\ndata:\n  anything: {}\n", '{{"kind":"Secret","data":{{"anything":"{}"}}}}',
    # databases
    "DETAIL:  Key (api_token)=({}) already exists.", "DETAIL:  Key (tenant_id, api_token)=(1, {}) already exists.",
    'DETAIL:  Key (token)=({}) is not present in table "tokens".', "DETAIL:  Failing row contains (1, bob, {}, null).",
    "Duplicate entry '{}' for key 'users.api_token'", "Incorrect string value: '{}' for column 'password' at row 1",
    "Violation of UNIQUE KEY constraint 'UQ_users_api_token'. Cannot insert duplicate key in object 'dbo.users'. The duplicate key value is ({}).",
    'E11000 duplicate key error collection: db.users index: api_token_1 dup key: {{ api_token: "{}" }}',
    'E11000 duplicate key error collection: db.users index: api_token_1 dup key: {{ : "{}" }}',
    "[SQL: INSERT INTO t VALUES (?, ?)]\n[parameters: ('bob', '{}')]\n(Background on this error)", "[SQL: SELECT 1]\n[parameters: ('{}",
    "DETAIL:  parameters: $1 = 'bob', $2 = '{}'", "INSERT INTO users (name, password) VALUES ('bob', '{}')",
    "INSERT INTO users (name, password) VALUES ('ann', 'x'), ('bob', '{}');", "UPDATE users SET password = '{}' WHERE id = 7", "SELECT * FROM t WHERE api_token='{}'",
    "ALTER USER bob WITH PASSWORD '{}'", "CREATE USER 'bob' IDENTIFIED BY '{}'", "SET PASSWORD '{}'",
    # forms
    "<password>{}</password>", '<ns:Password type="text">{}</ns:Password>', "<apiKey>{}</apiKey>", "<Password><![CDATA[{}]]></Password>",
    "&lt;password&gt;{}&lt;/password&gt;", '<property name="password" value="{}"/>', '<property name="password">{}</property>',
    '<string name="api_key">{}</string>', "<key>password</key><string>{}</string>", '<input type="password" value="{}">',
    "<input value='{}' name='csrf_token'>", '<meta name="csrf-token" content="{}">',
    'Content-Disposition: form-data; name="password"\r\n\r\n{}\r\n--boundary--', 'Content-Disposition: form-data; name="token"\nContent-Type: text/plain\n\n{}\n--b',
    # validation
    "1 validation error for Login\npassword\n  String should have at least 20 characters [type=string_too_short, input_value='{}', input_type=str]",
    "1 validation error for User\nuser.api_token\n  Value error [type=value_error, input_value='{}', input_type=str]", "[type=value_error, input_value='{}', input_type=str]",
    # command lines
    "mysql --password {}", "mysql --password={}", "mysql -u root -p{} -h db", "Command '['mysqldump', '-uroot', '-p{}', 'shop']' returned non-zero exit status 2.",
    "Command '['mysql', '--password', '{}']' returned non-zero exit status 1.", "sshpass -p {} ssh bob@host", "redis-cli -h cache -a {} ping",
    "curl -u bob:{} https://example.com", "curl --user bob:{} https://example.com", "Command '['curl', '-u', 'bob:{}']' timed out", "docker login -u bob -p {} registry",
    "ldapsearch -x -w {} -b dc=x", "gpg --passphrase {} -d x", "keytool -storepass {} -list", "openssl rsa -passin pass:{} -in k", "zip -P {} out.zip x",
    "sqlcmd -S db -U sa -P {} -Q x", "plink -pw {} host", "smbclient //host/share -U bob%{}", "7z x -p{} out.7z", "vault login --token {}", "helm install x --set auth.password={}",
    "aws configure set aws_secret_access_key {}", "kubectl create secret generic x --from-literal=password={}", "redis-server --requirepass {}", "http -a bob:{} example.com",
    "['tool', '--api-key', '{}']", "PGPASSWORD={} psql -h db", "mongo -u app -p {} db",
    "openssl enc -aes-256-cbc -k {} -in f", "unrar x -p{} f.rar", "net use \\\\srv\\share {} /user:bob", "net user bob {} /add", "echo {} | kinit bob",
    'ConvertTo-SecureString "{}" -AsPlainText -Force', "new NetworkCredential('bob', '{}')", "C: PASS {}", "ftp --> PASS {}",
    # declarations with a type
    'let token: &str = "{}";', "let token: &'static str = \"{}\";", 'val token: String? = "{}"', 'api_key: Option<String> = Some("{}")',
    "basic.auth.user.info=bob:{}", "schema.registry.basic.auth.user.info: bob:{}", "2FA code: {}", "MFA code={}",
    # invisible characters
    "pass\u200bword={}", "pass\u00adword: {}", "\x1b[31mpassword\x1b[0m={}", "pass\x1b[1mword={}", "to\u2060ken: {}", "\ufeffpassword={}", "\\u001b[31mtoken\\u001b[0m={}",
    "a\u200bpi_key = '{}'",
    # in URLs
    "GET /v1/items?api_key={}&page=2", "GET /v1/items?page=2&access_token={}", "https://example.com/?key={}", "https://example.com/?applicationId={}&format=json",
    "https://bucket.example.com/x?X-Amz-Signature={}&X-Amz-Date=1", "https://acct.blob.core.windows.net/c/b?sv=2024&sig={}", "odbc_connect=DRIVER%3DODBC%3BPWD%3D{}%3BUID%3Dsa",
    "next=https%3A%2F%2Fuser%3A{}%40host%2Fx", "body=%7B%22password%22%3A%22{}%22%7D", "state=token%253D{}", "https://api.telegram.org/bot123456789:AAHdqTcvCH1vGWJxf{}/sendMessage",
]  # fmt: skip
"""A shape is a text with a place for the secret; its other braces are doubled."""

ODD_SHAPES = [
    "password={}",
    "password: {}",
    "PWD={{{}}}",
    "password='{}'",
    '{{"password": "{}"}}',
    "--password {}",
    "token={}",
    "DB_PASSWORD={}",
    "api_key: '{}'",
    "<password>{}</password>",
]
"""Shapes that also hold values with separators."""

RANDOM_SHAPES = [
    "ENV DB_PASSWORD {}",
    "default login anonymous password {}",
    "Api-Key {}",
    "Using API key {}",
    "using password {}",
    "login with password {} failed",
    "Incorrect password {} for user bob",
    "API key {} is not valid",
    "Invalid session {}",
    "session {} expired",
    "credentials bob:{} rejected",
    "rootpw {}",
    "bindpw {}",
    "requirepass {}",
    "masterauth {}",
    "pre-shared-key {}",
    "wpa-psk {}",
    "user[bob] password[{}]",
    "passwd({}), host(x)",
    "token<{}>",
    "token|{}|next",
    "| password | {} |",
    "api_token ({}) is invalid",
    "Token [{}] rejected",
    "password\t{}",
]
"""Shapes where nothing but a blank is between a name and a value."""

VENDOR_NAMES = [
    "adafruit_api_key",
    "adobe_client_secret",
    "airtable_api_key",
    "algolia_api_key",
    "alibaba_secret_key",
    "asana_client_secret",
    "atlassian_api_token",
    "beamer_api_token",
    "bitbucket_client_secret",
    "bittrex_secret_key",
    "meraki_api_key",
    "cloudflare_api_key",
    "codecov_token",
    "cohere_api_key",
    "coinbase_access_token",
    "confluent_secret_key",
    "contentful_delivery_token",
    "datadog_access_token",
    "discord_client_secret",
    "droneci_access_token",
    "dropbox_api_token",
    "etsy_access_token",
    "facebook_app_secret",
    "fastly_api_token",
    "finicity_client_secret",
    "finnhub_access_token",
    "flickr_access_token",
    "freshbooks_access_token",
    "gitter_access_token",
    "gocardless_api_token",
    "heroku_api_key",
    "hubspot_api_key",
    "ibm_cloud_iam_api_key",
    "intercom_api_key",
    "jfrog_api_key",
    "artifactory_identity_token",
    "kraken_access_token",
    "kucoin_secret_key",
    "launchdarkly_access_token",
    "linear_client_secret",
    "linkedin_client_secret",
    "lob_api_key",
    "looker_client_secret",
    "mailchimp_api_key",
    "mailgun_signing_key",
    "mattermost_access_token",
    "messagebird_api_token",
    "netlify_access_token",
    "new_relic_api_key",
    "nytimes_access_token",
    "okta_api_token",
    "plaid_secret_key",
    "privateai_api_key",
    "rapidapi_key",
    "sendbird_access_token",
    "sentry_access_token",
    "snyk_api_token",
    "sonar_token",
    "squarespace_access_token",
    "sumologic_access_token",
    "telegram_bot_token",
    "travis_token",
    "twitch_api_token",
    "twitter_api_secret",
    "typeform_api_token",
    "yandex_api_key",
    "zendesk_secret_key",
    "azure_client_secret",
    "cloudant_password",
    "softlayer_api_key",
    "x_rapidapi_key",
]
"""Names by which the scanners' rules without a prefix find a secret."""


def read_texts(name):
    """Return the texts of a file, which are separated by lines with a percent sign."""
    return (DATA / name).read_text().rstrip("\n").split("\n%\n")


def texts_without_secrets():
    """Return the texts that must stay as they are."""
    return read_texts("texts_without_secrets.txt")


def secrets():
    """Yield a label, a text and the secret in it."""
    for vendor, before, values in tokens():
        for value in values:
            yield f"{vendor} {before}", f"{value} is inactive", value
    groups = [(SHAPES, VALUES), (ODD_SHAPES, ODD_VALUES), (RANDOM_SHAPES, RANDOM_VALUES)]
    for shape, value in ((shape, value) for shapes, values in groups for shape in shapes for value in values):
        yield shape, shape.format(value), value
    for shape in read_texts("texts_with_secrets.txt"):
        for value in (VALUES[0], "gentleFoxMountain77", VALUES[2]):
            yield shape, shape.replace("@@", value), value
    drawn = random.Random(7)
    for name in VENDOR_NAMES:
        for form in ("{}={}", "{}: '{}'", '"{}": "{}"'):
            value = "".join(drawn.choice(ALNUM) for _ in range(32))
            yield name, form.format(name.upper() if "=" in form else name, value), value
