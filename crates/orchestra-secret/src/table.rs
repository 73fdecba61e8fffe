//! The table of names, token forms and command-line forms.
//!
//! Prefixes, alphabets and lengths of tokens are facts from the rule set of gitleaks (`config/gitleaks.toml` of
//! 2025-11-20, read on 2026-11-28) and from the documentation of the issuers. Minimum lengths are shorter than
//! those of the issuers: a token that was cut or that follows an older format is a secret too.

pub mod commands;

/// Parts of a name, in lower-case letters and digits without separators, that mean a secret anywhere in it.
#[rustfmt::skip]
pub(crate) const SECRET_PARTS: &[&str] = &[
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "decryptionkey",
    "masterkey",
    "sessionkey",
    "authkey",
    "credential",
    "mnemonic",
    "requirepass",
    "connectionstring",
];

/// Words that mean a secret anywhere in a name.
#[rustfmt::skip]
pub(crate) const SECRET_WORDS: &[&str] = &["token", "authorization", "bearer", "passw"];

/// Words that mean a secret at the end of a name.
#[rustfmt::skip]
pub(crate) const SECRET_LAST_WORDS: &[&str] = &[
    "auth",
    "authentication",
    "pass",
    "pwd",
    "pw",
    "jwt",
    "cookie",
    "cookies",
    "dsn",
    "otp",
    "pin",
    "totp",
    "psk",
    "creds",
];

/// Parts of a word, or words written together, by which a form asks for a secret, beside [`SECRET_PARTS`]. The languages
/// with the most speakers come first.
#[rustfmt::skip]
pub(crate) const ASKED_PARTS: &[&str] = &[
    "passkey",
    // Chinese, Hindi, Spanish, French, Arabic, Bengali, Portuguese, Russian, Urdu.
    "密码", "密碼", "口令", "密钥", "密鑰", "金鑰", "验证码", "驗證碼", "访问令牌", "助记词", "助記詞",
    "पासवर्ड", "कूटशब्द", "पासकोड", "सत्यापनकोड",
    "contraseña", "clavedeacceso", "clavepersonal", "códigodeverificación",
    "motdepasse", "motsdepasse", "cléd'accès", "cléapi", "codedevérification", "codeconfidentiel",
    "كلمةالمرور", "كلمةالسر", "كلمةمرور", "كلمةسر", "الرقمالسري", "رمزالمرور", "رمزالدخول", "رمزالتحقق",
    "পাসওয়ার্ড", "গোপনসংকেত", "যাচাইকরণকোড",
    "palavrapasse", "códigodeverificação", "chavedeacesso",
    "парол", "секретныйключ", "ключдоступа", "кодподтверждения", "пинкод",
    "پاسورڈ", "پاسورد", "رمزعبور", "گذرواژه",
    // Indonesian, German, Japanese, Turkish, Korean, Vietnamese, Italian, and more of Europe and Asia.
    "katasandi", "katalaluan", "passwort", "kennwort", "losungswort", "geheimzahl", "zugangsdaten", "zugangscode",
    "パスワード", "ぱすわーど", "パスコード", "暗証番号", "認証コード", "秘密鍵",
    "şifre", "비밀번호", "패스워드", "인증번호", "mậtkhẩu", "parolad'ordine",
    "wachtwoord", "lösenord", "adgangskode", "salasana", "κωδικόςπρόσβασης", "συνθηματικ", "סיסמה", "סיסמא", "รหัสผ่าน",
    "கடவுச்சொல்", "ਪਾਸਵਰਡ", "પાસવર્ડ",
];

/// Parts of words that have a part of a secret's name in them without meaning one: `secretary`, `secretion`.
pub(crate) const NOT_ASKED_PARTS: &[&str] = &["secretar", "secretai", "secretion"];

/// Words by which a form asks for a secret.
#[rustfmt::skip]
pub(crate) const ASKED_WORDS: &[&str] = &[
    "token", "bearer", "passw", "pwd", "otp", "totp", "cvv", "cvc", "jwt", "creds", "2fa", "mfa", "authenticator",
    "senha", "senhas", "hasło", "hasła", "heslo", "hesla", "jelszó", "passord",
];

/// Words in capital letters by which a text asks for a secret. In small letters they mean something else.
pub(crate) const ASKED_CAPITALS: &[&str] = &["PIN", "PAT"];

/// Words, written together, by which a form asks for a secret.
#[rustfmt::skip]
pub(crate) const ASKED_PHRASES: &[&str] = &[
    // Keys and tokens.
    "secretkey", "sshkey", "gpgkey", "pgpkey", "walletkey", "recoverykey", "sharedkey", "licensekey", "deploykey", "openaikey", "anthropickey",
    "githubkey", "awskey", "azurekey", "stripekey", "geminikey", "apitoken", "accesstoken", "authtoken", "sessiontoken",
    "refreshtoken",
    // Codes.
    "pincode", "pinnumber", "yourpin", "enterpin", "enterthepin", "typethepin", "cardpin", "simpin", "bankpin", "digitpin",
    "loginpin", "accountpin", "onetimepin", "mfacode", "2facode", "2stepcode", "twostepcode", "twofactorcode", "twofactorauth",
    "twofactorauthentication", "onetimecode", "otpcode", "verificationcode", "securitycode", "recoverycode", "backupcode",
    "authenticationcode", "authorizationcode", "authcode", "accesscode", "logincode", "signincode", "smscode", "unlockcode",
    "confirmationcode", "6digitcode", "sixdigitcode", "codewesent", "codewetexted", "codesentto", "magiclink",
    "sixdigits", "6digits", "digitswesent", "digitsthatweresent", "digitsyoureceived", "authorizationheader",
    // Phrases of wallets.
    "your12words", "your24words", "the12words", "the24words", "enter12words", "enter24words", "yourtwelvewords", "thetwelvewords",
    "entertwelvewords",
    "seedphrase", "seedwords", "recoveryphrase", "recoverywords", "backupphrase", "backupwords", "mnemonicwords",
    "walletphrase", "walletwords", "12wordphrase", "24wordphrase",
    // Logins.
    "logindetails", "logindata", "logininformation", "signindetails", "sessioncookie", "authcookie", "logincookie",
    "browsercookie", "yourcookie", "cookievalue", "cookieheader", "cookiestring",
    // Cards.
    "creditcard", "debitcard", "cardnumber",
];

/// Files that hold secrets, in lower case; one that ends with `/` is a directory, or the beginning of a name.
#[rustfmt::skip]
pub(crate) const ASKED_PLACES: &[&str] = &[
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".ssh/", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", ".env",
    "kubeconfig", ".kube/config", ".aws/credentials", ".docker/config.json", ".gnupg/",
];

/// Last words of the names of fields for secrets, which mean something else in a sentence.
#[rustfmt::skip]
pub(crate) const ASKED_NAMES: &[&str] = &["pat", "pin"];

/// Words behind the name of a secret that make it another thing in a form: `token name`, `password length`. Unlike
/// [`ATTRIBUTES`], they are none that a question for the secret itself ends with: `password required`.
#[rustfmt::skip]
pub(crate) const ASKED_ATTRIBUTES: &[&str] = &[
    "age", "algorithm", "budget", "count", "counts", "dir", "directory", "endpoint", "expires", "expiration", "expiry", "file", "format",
    "helper", "index", "issuer", "kind", "len", "length", "lifetime", "limit", "limits", "list", "location", "manager", "max", "min", "name",
    "names", "path", "pattern", "policy", "prefix", "provider", "rotation", "scheme", "scope", "scopes", "size", "store", "suffix",
    "ttl", "type", "types", "uri", "uris", "url", "urls", "usage", "version",
];

/// Words by which the label of a choice asks for something to be entered in another field.
#[rustfmt::skip]
pub(crate) const ASKING_WORDS: &[&str] = &[
    "enter", "type", "typed", "paste", "pasted", "provide", "put", "fill", "write", "insert", "give", "send", "submit", "share", "your",
    "my", "above", "below",
];

/// Letters that look like one of ASCII and that normalization of Unicode leaves as they are (Unicode Technical Standard 39
/// has them all; these are those of alphabets in use).
#[rustfmt::skip]
pub(crate) const LOOKALIKES: &[(char, &str)] = &[
    ('a', "ɑаαᴀꭺꓮ"), ('b', "ƅьвʙꓐᏼ"), ('c', "сϲᴄꓚꮯ"), ('d', "ԁɗđᴅꓓꭰ"), ('e', "еєҽεɛᴇ℮ꓰꭼ"), ('f', "ƒꜰꓝ"),
    ('g', "ɡցɢꓖꮐ"), ('h', "һнհʜꓧꮋ"), ('i', "іıɩιɪꓲꭵ"), ('j', "јϳᴊꓙꭻ"), ('k', "кκᴋꓗꮶ"), ('l', "ӏłʟǀꓡꮮ"),
    ('m', "мᴍꓟꮇ"), ('n', "пոηɴꓠ"), ('o', "оοσօøᴏꓳ"), ('p', "рρþᴘꓑꮲ"), ('q', "ԛգ"), ('r', "гʀꭇꓣꭱꮢ"),
    ('s', "ѕꜱꓢꮪ"), ('t', "тτᴛꓔꭲ"), ('u', "υսᴜꓴ"), ('v', "ѵνᴠꓦꮩ"), ('w', "ԝաωᴡꓪꮃ"), ('x', "хχꓫ"),
    ('y', "уγყʏꓬꮍ"), ('z', "ᴢꓜꮓ"),
];

/// Digits and signs that are written in the place of letters: `p4$$w0rd`.
#[rustfmt::skip]
pub(crate) const SUBSTITUTES: &[(char, char)] = &[
    ('0', 'o'), ('1', 'i'), ('3', 'e'), ('4', 'a'), ('5', 's'), ('7', 't'), ('@', 'a'), ('$', 's'), ('!', 'i'),
];

/// Pairs of letters that look like one: `passvvord`.
pub(crate) const PAIRS: &[(&str, &str)] = &[("vv", "w"), ("VV", "W"), ("rn", "m"), ("cl", "d")];

/// Ends of the last word that mean a secret.
pub(crate) const SECRET_ENDS: &[&str] = &["token", "pass", "pwd", "auth", "apikey"];

/// Words that end in one of [`SECRET_ENDS`] without meaning a secret.
#[rustfmt::skip]
pub(crate) const NOT_SECRET_ENDS: &[&str] = &[
    "bypass", "compass", "encompass", "surpass", "trespass", "overpass", "underpass", "multipass",
    "oauth",
];

/// Last words of names that describe a secret instead of holding it: `token_type`, `PASSWORD_FILE`.
#[rustfmt::skip]
pub(crate) const ATTRIBUTES: &[&str] = &[
    "age", "algorithm", "backend", "budget", "class", "command", "config", "count", "counts", "dir", "directory",
    "enabled", "endpoint", "env", "error", "exists", "expired", "fd", "expires", "expiration", "expiry", "field", "file",
    "format", "helper", "hint", "host", "index", "info", "input", "issuer", "kind", "label", "len", "length",
    "lifetime", "limit", "limits", "list", "location", "manager", "max", "message", "method", "methods", "min", "mode", "name",
    "names", "page", "path", "paths", "pattern", "placeholder", "policy", "port", "position", "prefix", "prompt", "provider",
    "ref", "reference", "required", "reset", "rotation", "scheme", "scope", "scopes", "size", "source", "state", "status", "stdin",
    "store", "suffix", "supported", "sock", "socket", "title", "ttl", "type", "types", "uri", "uris", "url", "urls",
    "usage", "used", "user", "username", "valid", "validator", "version", "visible",
];

/// Words before `token` that make it a cursor, a handle or a unit of text.
#[rustfmt::skip]
pub(crate) const PLAIN_TOKENS: &[&str] = &[
    "progress", "page", "continuation", "sync", "next", "cursor", "resume", "resumption", "cancel", "cancellation", "max",
    "min", "input", "output", "prompt", "completion", "stop", "pad", "eos", "bos", "unk", "special", "mask", "per", "first",
    "last", "start", "end", "invalid", "unexpected", "parse", "lexer",
];

/// Words before `tokens` that make it a list of secrets instead of a number.
#[rustfmt::skip]
pub(crate) const SECRET_TOKENS: &[&str] = &["api", "access", "auth", "refresh", "session", "secret", "bearer", "user", "admin"];

/// Words before `key` that make it no secret.
#[rustfmt::skip]
pub(crate) const PLAIN_KEYS: &[&str] = &[
    "public", "pub", "primary", "foreign", "partition", "sort", "cache", "idempotency", "map", "object", "dict", "json",
    "config", "registry", "hot", "shortcut", "arrow", "lookup", "index", "group", "row", "hash", "range", "column", "unique",
    "natural", "composite", "surrogate", "routing", "dedup", "dedupe", "storage", "state", "query", "data", "meta", "any", "each",
    "no", "the", "a", "this", "that", "issue", "project", "plan", "parent", "event", "message", "i18n", "translation", "label",
    "header", "first", "last", "next", "prev", "previous", "enter", "tab", "escape", "press", "function", "modifier", "sub", "host",
    "by", "per", "for", "of", "is", "has", "to", "with", "get", "set", "new", "old", "left", "right", "up", "down", "home", "end",
    "page", "space", "delete", "menu", "on", "un", "in", "field", "item", "node", "tree", "record", "entry", "trace", "span",
    "attribute", "property", "param", "parameter", "string", "int", "metric", "topic", "file", "s3", "bucket", "resource", "type",
    "image", "layer", "feature", "flag", "env", "variable", "react", "vue", "render", "compare", "comparison", "merge", "join",
    "search", "filter", "select", "selection", "target", "source", "known", "unknown", "missing", "required", "optional",
];

/// Parameters of a URL's query that are secrets there, beside secret names.
#[rustfmt::skip]
pub(crate) const SECRET_PARAMETERS: &[&str] = &[
    "code", "state", "sig", "signature", "key", "hmac", "ticket", "assertion", "samlresponse", "xamzsignature", "xgoogsignature",
    "codeverifier", "sid", "sessionid",
];

/// Authentication schemes that precede a credential (RFC 9110, section 11).
#[rustfmt::skip]
pub(crate) const SCHEMES: &[&str] = &[
    "bearer", "basic", "digest", "negotiate", "ntlm", "token", "apikey", "bot", "splunk", "hmac", "key", "aws4hmacsha256",
    "dpop", "hoba", "mutual", "scramsha256", "scramsha1", "vapid", "googlelogin", "sso-key",
];

/// Words of which a placeholder with several words has at least one: `your-token-here`.
#[rustfmt::skip]
pub(crate) const PLACEHOLDER_WORDS: &[&str] = &[
    "password", "passwd", "passphrase", "pass", "pw", "pwd", "secret", "secrets", "token", "tokens", "key", "keys", "apikey", "auth",
    "access", "refresh", "origin",
    "authorization", "authentication", "credential", "credentials", "creds", "cookie", "jwt", "your", "example", "sample", "dummy",
    "placeholder", "redacted", "removed", "hidden", "masked", "changeme", "value", "name", "username", "none", "null", "undefined",
];

/// Words that are no secret values.
#[rustfmt::skip]
pub(crate) const PLAIN_WORDS: &[&str] = &[
    // Names of secrets, and words that go with them in placeholders.
    "password", "passwd", "passphrase", "pass", "pw", "pwd", "secret", "secrets", "token", "tokens", "key", "keys", "api", "apikey",
    "auth", "authorization", "authentication", "bearer", "basic", "digest", "credential", "credentials", "creds", "cookie", "jwt", "access", "refresh",
    "private", "public", "client", "session", "user", "username", "login", "admin", "account", "name", "value", "val", "values", "your", "my", "the",
    "our", "their", "some", "any", "this", "that", "a", "an", "id", "here", "example", "sample", "dummy", "placeholder", "redacted", "removed", "hidden",
    "masked", "mask", "xxx", "xxxx", "xxxxx", "xxxxxx", "xxxxxxxx", "foo", "bar", "baz", "changeme", "change", "me", "insert", "replace", "with", "env", "from", "of",
    "to", "for", "in", "is", "on", "as", "at", "by", "or", "and", "not", "be", "new", "old", "current", "default", "generated", "github", "gitlab", "npm", "openai",
    "anthropic", "google", "aws", "azure", "slack", "app", "service", "server", "host", "db", "database", "string", "text", "file", "path", "url", "data", "raw",
    "valid", "invalid", "expired", "test", "tests", "testing", "mock", "mocked", "fake", "wrong", "correct", "first", "second", "third", "bad", "good",
    "other", "another", "stale", "fresh", "opaque", "legacy", "initial", "long", "short", "real", "same", "random", "unique", "shared", "stored", "cached",
    "issued", "revoked", "rotated", "updated", "existing", "custom", "super", "very", "no", "origin", "include", "omit", "please",
    // Types, literals and keywords of programs and configurations.
    "str", "int", "integer", "number", "float", "double", "bool", "boolean", "bytes", "byte", "char", "object", "array", "list", "map", "dict", "null", "nil", "none",
    "undefined", "optional", "required", "true", "false", "yes", "no", "off", "auto", "always", "never", "self", "super", "static", "const", "let", "var", "function",
    "return", "await", "async", "void", "unknown", "never", "type", "enum", "struct", "interface", "option", "result", "some", "ok", "err", "error", "missing", "empty", "invalid",
    "unset", "set", "get", "read", "write", "prompt", "header", "headers", "query", "body", "param", "params", "field", "option", "options", "flag", "argument", "config",
    "oauth", "oauth2", "oidc", "openid", "saml", "ldap", "kerberos", "ssh", "mtls", "tls", "hmac", "sha256", "sha1", "sha512", "md5", "rs256", "hs256", "es256", "utf8", "base64",
    "application", "development", "production", "staging", "local", "localhost", "trace", "debug", "info", "warn", "warning", "json", "plain", "inherit", "disabled", "enabled",
];

/// Words that only sentences contain.
#[rustfmt::skip]
pub(crate) const COMMON_WORDS: &[&str] = &[
    "a", "an", "the", "is", "not", "to", "of", "for", "in", "on", "at", "as", "my", "this", "that", "no", "with", "by", "or", "and", "from", "be", "here",
    "must", "contain", "contains", "should", "may", "might", "can", "cannot", "could", "would", "has", "have", "had", "does", "do", "did", "use", "used",
    "uses", "using", "enter", "provide", "provided", "incorrect", "match", "matches", "least", "characters", "length", "too", "if", "when", "are", "was",
    "were", "been", "will", "it", "its", "you", "we", "they", "only", "both", "between", "before", "after", "without", "where", "which", "who", "how", "what",
    "why", "also", "than", "then", "so", "but", "more", "less", "per", "about", "into", "all", "each", "every", "one", "two", "forgot", "confirm", "again", "up",
    "sent", "send", "out", "there", "these", "those", "such", "over", "under", "until", "while", "because", "made", "make", "via", "see", "shown", "needed",
];

/// Names of objects of programs whose members hold secrets.
#[rustfmt::skip]
pub(crate) const OBJECTS: &[&str] = &[
    "self", "this", "config", "cfg", "conf", "opts", "options", "settings", "env", "process", "req", "request", "res", "response", "resp", "ctx", "context",
    "args", "props", "params", "data", "user", "account", "auth", "client", "server", "state", "input", "output", "result", "body", "event", "row", "record",
    "obj", "item", "form", "values", "credentials", "creds", "app", "session", "node", "token", "tokens", "secrets", "spec", "test", "suite", "parsed", "store",
];

/// Characters of the rest of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// Letters and digits.
    Alnum,
    /// Hexadecimal digits.
    Hex,
    /// Letters, digits, `-` and `_`.
    Word,
    /// As [`Self::Word`], and `.`, `~`.
    Dotted,
    /// As [`Self::Word`], and `+`, `/`, `=`, `.`.
    Base64,
    /// As [`Self::Base64`], and `:`, `@`.
    Path,
}

impl Alphabet {
    /// Number of alphabets.
    pub(crate) const COUNT: usize = 6;

    /// Returns whether a byte belongs to the alphabet.
    #[must_use]
    pub const fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Self::Dotted => Self::Word.has(byte) || matches!(byte, b'.' | b'~'),
            Self::Base64 => Self::Word.has(byte) || matches!(byte, b'+' | b'/' | b'=' | b'.'),
            Self::Path => Self::Base64.has(byte) || matches!(byte, b':' | b'@'),
        }
    }
}

/// Required context before a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// None: the prefix is distinctive.
    Any,
    /// No letter or digit.
    Boundary,
    /// At least this number of digits.
    Digits(usize),
}

/// Form of a well-known token: a prefix, which remains visible, and a random rest.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    /// Beginning of every such token.
    pub prefix: &'static str,
    /// Characters of the rest.
    pub alphabet: Alphabet,
    /// Minimum number of bytes of the rest.
    pub min: usize,
    /// Required context before the token.
    pub before: Before,
}

const fn distinct(prefix: &'static str, alphabet: Alphabet, min: usize) -> Token {
    Token {
        prefix,
        alphabet,
        min,
        before: Before::Any,
    }
}

const fn word(prefix: &'static str, alphabet: Alphabet, min: usize) -> Token {
    Token {
        prefix,
        alphabet,
        min,
        before: Before::Boundary,
    }
}

use Alphabet::{Alnum, Base64, Dotted, Hex, Path, Word};

/// Forms of well-known tokens.
#[rustfmt::skip]
pub const TOKENS: &[Token] = &[
    // Source code hosts.
    distinct("ghp_", Alnum, 12), distinct("gho_", Alnum, 12), distinct("ghu_", Alnum, 12), distinct("ghs_", Word, 12), distinct("ghr_", Alnum, 12),
    distinct("github_pat_", Word, 12),
    distinct("glpat-", Dotted, 10), distinct("gldt-", Word, 10), distinct("glcbt-", Word, 10), distinct("glffct-", Word, 10), distinct("glft-", Word, 10),
    distinct("glimt-", Word, 10), distinct("glagent-", Word, 10), distinct("gloas-", Word, 10), distinct("glptt-", Word, 10), distinct("glrt-", Dotted, 10),
    distinct("glrtr-", Dotted, 10), distinct("glsoat-", Word, 10), distinct("glwt-", Word, 10), distinct("GR1348941", Word, 10),
    distinct("ATATT3", Base64, 20), distinct("ATCTT3", Base64, 20), distinct("ATBB", Alnum, 20), distinct("sgp_", Word, 16),
    distinct("bkua_", Hex, 16), distinct("CCIPAT_", Word, 20), distinct("CCIPRJ_", Word, 20),
    // Package registries.
    distinct("npm_", Alnum, 12), distinct("pypi-", Word, 12), distinct("rubygems_", Hex, 16), distinct("CLOJARS_", Alnum, 20), word("cio", Alnum, 32),
    distinct("dckr_pat_", Word, 10), distinct("dckr_oat_", Word, 10), distinct("oy2", Alnum, 43), distinct("AKCp", Alnum, 30), distinct("cmVmd", Alnum, 30),
    // Models.
    word("sk-", Word, 12), distinct("sk-ant-", Word, 10), distinct("sk-proj-", Word, 10), distinct("sk-svcacct-", Word, 10), distinct("sk-admin-", Word, 10),
    distinct("sk-or-", Word, 10), distinct("sk-lf-", Word, 10), word("hf_", Alnum, 12), distinct("api_org_", Alnum, 20), word("gsk_", Alnum, 16), word("xai-", Alnum, 16),
    word("r8_", Alnum, 16), distinct("nvapi-", Word, 16), word("pplx-", Alnum, 16), distinct("lsv2_pt_", Word, 16), distinct("lsv2_sk_", Word, 16), distinct("pcsk_", Word, 16),
    word("tvly-", Word, 12), word("csk-", Alnum, 16), word("jina_", Alnum, 16), word("fw_", Alnum, 16), distinct("AIza", Word, 20), distinct("tgp_v1_", Word, 16), word("sess-", Alnum, 36),
    // Clouds.
    word("AKIA", Alnum, 12), word("ASIA", Alnum, 12), word("ABIA", Alnum, 12), word("ACCA", Alnum, 12), word("ABSK", Base64, 40),
    distinct("bedrock-api-key-", Base64, 16), word("ya29.", Word, 16), distinct("GOCSPX-", Word, 16), word("1//0", Word, 20), distinct("8Q~", Dotted, 24), distinct("7Q~", Dotted, 24),
    word("LTAI", Alnum, 12), distinct("dop_v1_", Alnum, 16), distinct("doo_v1_", Alnum, 16), distinct("dor_v1_", Alnum, 16), distinct("HRKU-", Word, 20),
    distinct("fo1_", Word, 20), distinct("fm1r_", Base64, 40), distinct("fm1a_", Base64, 40), distinct("fm2_", Base64, 40), word("rnd_", Alnum, 20), word("nfp_", Alnum, 20),
    word("v1.0-", Word, 60), word("tk-us-", Word, 24), word("AQVN", Word, 30), word("YC", Word, 38), word("t1.", Base64, 60), distinct("tskey-", Word, 12),
    distinct("sbp_", Hex, 20), distinct("sb_secret_", Word, 16), distinct("pscale_tkn_", Dotted, 20), distinct("pscale_oauth_", Dotted, 20), distinct("pscale_pw_", Dotted, 20),
    distinct("dapi", Hex, 32), distinct("sha256~", Word, 30), distinct("dt0c01.", Dotted, 40), word("hvs.", Word, 20), word("hvb.", Word, 20), word("hvr.", Word, 20),
    distinct(".atlasv1.", Word, 40), distinct("pul-", Hex, 30), distinct("dp.pt.", Alnum, 20), distinct("dp.st.", Dotted, 20), distinct("dp.ct.", Alnum, 20), distinct("dp.sa.", Alnum, 20),
    distinct("pat.", Dotted, 60), distinct("sat.", Dotted, 60), distinct("API-", Alnum, 26), distinct("pnu_", Alnum, 30),
    distinct("vercel_blob_rw_", Word, 16), distinct("essu_", Base64, 20), word("4/0A", Word, 40), distinct("amzn.mws.", Word, 30), word("4b1d", Alnum, 38), distinct("napi_", Alnum, 40),
    // Payment and shops.
    distinct("sk_live_", Alnum, 10), distinct("sk_test_", Alnum, 10), distinct("sk_prod_", Alnum, 10), distinct("rk_live_", Alnum, 10), distinct("rk_test_", Alnum, 10),
    distinct("rk_prod_", Alnum, 10), distinct("whsec_", Base64, 16), distinct("shpat_", Alnum, 16), distinct("shpca_", Alnum, 16), distinct("shppa_", Alnum, 16),
    distinct("shpss_", Alnum, 16), distinct("sq0atp-", Word, 16), distinct("sq0csp-", Word, 16), word("EAAA", Word, 40), distinct("FLWSECK_TEST-", Word, 12), distinct("FLWSECK-", Word, 12),
    distinct("shippo_live_", Hex, 20), distinct("shippo_test_", Hex, 20), distinct("EZAK", Alnum, 40), distinct("EZTK", Alnum, 40), distinct("duffel_live_", Word, 20),
    distinct("duffel_test_", Word, 20), distinct("access-sandbox-", Word, 30), distinct("access-production-", Word, 30), distinct("access-development-", Word, 30),
    // Messages and mail.
    distinct("xoxb-", Word, 10), distinct("xoxp-", Word, 10), distinct("xoxa-", Word, 10), distinct("xoxr-", Word, 10), distinct("xoxs-", Word, 10), distinct("xoxo-", Word, 10),
    distinct("xoxe-", Word, 10), distinct("xoxc-", Word, 10), distinct("xoxd-", Base64, 10), distinct("xoxe.xoxb-", Word, 10), distinct("xoxe.xoxp-", Word, 10), distinct("xapp-", Word, 12),
    distinct("hooks.slack.com/services/", Path, 12), distinct("hooks.slack.com/workflows/", Path, 12), distinct("hooks.slack.com/triggers/", Path, 12),
    distinct("discord.com/api/webhooks/", Path, 20), distinct("discordapp.com/api/webhooks/", Path, 20), distinct("webhook.office.com/webhookb2/", Path, 36),
    distinct("outlook.office.com/webhook/", Path, 36), distinct("hooks.zapier.com/hooks/catch/", Path, 10), word("re_", Word, 30),
    distinct("api.telegram.org/bot", Path, 20), word("SG.", Dotted, 24), distinct("xkeysib-", Word, 20), distinct("xsmtpsib-", Word, 20), word("SK", Hex, 32), word("key-", Hex, 32),
    Token { prefix: ":AA", alphabet: Word, min: 30, before: Before::Digits(8) }, Token { prefix: "|", alphabet: Word, min: 27, before: Before::Digits(15) },
    // Tools and services.
    distinct("lin_api_", Alnum, 16), distinct("lin_oauth_", Alnum, 16), distinct("ntn_", Alnum, 20), word("secret_", Alnum, 40), distinct("glsa_", Word, 20), distinct("glc_", Base64, 24),
    distinct("NRAK-", Alnum, 16), distinct("NRII-", Word, 16), distinct("NRJS-", Alnum, 16), distinct("PMAK-", Word, 24), distinct("rdme_", Alnum, 30), distinct("sntrys_", Base64, 24),
    distinct("sntryu_", Hex, 24), distinct("sm_aat_", Alnum, 12), distinct("sm_pat_", Alnum, 12), distinct("sm_sat_", Alnum, 12), distinct("tfp_", Dotted, 24), distinct("figd_", Word, 16),
    distinct("figo_", Word, 16), distinct("phx_", Alnum, 20), distinct("apify_api_", Alnum, 16), distinct("fio-u-", Base64, 20), distinct("squ_", Hex, 24), distinct("sqp_", Hex, 24),
    distinct("sqa_", Hex, 24), word("pat", Dotted, 70), distinct("p8e-", Alnum, 24), distinct("ops_eyJ", Base64, 40), word("A3-", Word, 26), distinct("AGE-SECRET-KEY-1", Alnum, 20),
    distinct("dnkey-", Word, 30), distinct("EAAM", Alnum, 80), distinct("EAAC", Alnum, 80), distinct("eyJrIjoi", Base64, 40), distinct("e2b_", Hex, 24), distinct("ddp_", Alnum, 24),
    distinct("CFPAT-", Word, 20), distinct("esecret_", Alnum, 16), distinct("pat-na1-", Word, 30), distinct("pat-eu1-", Word, 30),
    word("v1.local.", Word, 40), word("v2.local.", Word, 40), word("v3.local.", Word, 40), word("v4.local.", Word, 40),
    word("v1.public.", Word, 40), word("v2.public.", Word, 40), word("v3.public.", Word, 40), word("v4.public.", Word, 40),
];

#[cfg(test)]
mod tests;
