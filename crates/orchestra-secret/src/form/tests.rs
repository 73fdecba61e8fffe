//! Forms that ask for a secret in one way or another, and forms that do not.

use proptest::prelude::*;

use super::*;

/// Names of secrets, none of which is a part of another word of a sentence.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    "password", "pass word", "pass-word", "passwords", "pass phrase", "passphrase", "passcode", "passkey", "PIN", "PIN code", "your pin",
    "6-digit pin", "one-time code", "one time password", "2FA", "2fa code", "MFA", "two-factor code", "OTP", "verification code",
    "code we sent you", "authenticator", "seed phrase", "recovery words", "backup words", "recovery phrase", "mnemonic",
    "private key", "API key", "API credential", "API credentials", "login details", "bearer", "bearer token", "access token",
    "api tokens", "session cookie", "cookie header", "client secret", "PAT", "card number", "CVV", "magic link",
    // Chinese, Hindi, Spanish, French, Arabic, Bengali, Portuguese, Russian and Urdu.
    "密码", "密碼", "验证码", "पासवर्ड", "contraseña", "clave de acceso", "mot de passe", "code secret", "clé d'accès", "كلمة المرور",
    "بكلمة السر", "পাসওয়ার্ড", "palavra-passe", "senha", "пароль", "паролем", "пин-код", "پاس ورڈ",
    // Other languages.
    "Passwort", "Paßwort", "Kennwort", "kata sandi", "パスワード", "ﾊﾟｽﾜｰﾄﾞ", "暗証番号", "şifre", "ŞİFRE", "비밀번호", "mật khẩu", "hasło",
    "lösenord", "κωδικός πρόσβασης", "סיסמה", "רחוק סיסמה", "รหัสผ่าน",
];

#[test]
fn text_and_field_that_name_a_secret_are_recognised_in_each_language() {
    for secret in SECRETS {
        assert!(mentions_secret(secret), "{secret}");
        assert!(
            mentions_secret(&format!("Orchestra needs {secret}: go on")),
            "{secret}"
        );
        assert!(is_secret_field(secret), "{secret}");
    }
    for text in [
        "Orchestra needs your GitHub password",
        "GitHub password required",
        "Password prompt",
        "Su CONTRASEÑA",
        "Введите пароль",
        "请输入密码",
        "credit_card",
        "mfaCode",
        "Enter token: name it",
    ] {
        assert!(mentions_secret(text), "{text}");
    }
    for field in [
        "pat",
        "pin",
        "otp",
        "github_pat",
        "apiKey",
        "card_number",
        "passwordInput",
        "sessionCookie",
    ] {
        assert!(is_secret_field(field), "{field}");
    }
}

#[test]
fn token_form_and_file_of_secrets_name_a_secret() {
    for text in [
        "Paste the value that begins with ghp_",
        "ghp_xxxx",
        "sk-ant-api03-…",
        "It starts with `sk-ant-`",
        "glpat-xxxxxxxx",
        "Your `Authorization` header",
        "Contents of ~/.netrc",
        "~/.npmrc",
        "~/.ssh/id_ed25519",
        "the text of id_rsa",
        ".env",
        "Paste your kubeconfig",
        "The six digits that were sent to your phone",
        "Enter your 12 words",
        "Type the 24 words, in order",
    ] {
        assert!(mentions_secret(text), "{text}");
    }
    for text in [
        "A key-value store, API-based",
        "process.env.HOME",
        "the environment",
        "task-name of the disk-image",
        "npm run build",
        "Summary in 12 words",
        "a pypi-server",
        "npm_version",
        "fw_version",
    ] {
        assert!(!mentions_secret(text), "{text}");
    }
}

#[test]
fn secret_is_recognised_in_letters_that_only_look_like_its_own() {
    for text in [
        "ｐａｓｓｗｏｒｄ",
        "pass\u{200b}word",
        "p\u{ad}a\u{2060}s\u{fe0f}s\u{e0061}word",
        "pass\u{fffd}word",
        "contrasen\u{303}a",
        "pа\u{455}\u{455}w\u{43e}rd",
        "раsswоrd",
        "ραѕѕword",
        "ⓟⓐⓢⓢⓦⓞⓡⓓ",
        "🅟🅐🅢🅢🅦🅞🅡🅓",
        "𝐩𝖆𝓼𝔰𝕨𝙤𝚛𝗱",
        "ᵖᵃˢˢʷᵒʳᵈ",
        "ᴘᴀꜱꜱᴡᴏʀᴅ",
        "p\u{338}a\u{338}s\u{338}sword",
        "пaроль",
        "\u{202e}drowssap ruoy retnE",
        "ꓑꓮꓢꓢꓪꓳꓣꓓ",
        "ꮲꭺꮪꮪꮃord",
        "passvvord",
        "passworcl",
        "pass&shy;word",
        "&#112;ass&#x200B;word",
    ] {
        assert!(mentions_secret(text), "{text}");
        assert!(is_secret_field(text), "{text}");
    }
}

#[test]
fn secret_is_recognised_when_it_is_spelled_out_or_written_with_digits() {
    for text in [
        "p a s s w o r d",
        "P.A.S.S.W.O.R.D",
        "a p-a-s-s-w-o-r-d!",
        "pa ss wo rd",
        "p a s s word",
        "pass**word**",
        "pass/word",
        "pass.word",
        "P I N",
        "P.I.N.",
        "2-F-A",
        "t o k e n",
        "密 码",
        "п а р о л ь",
        "passw0rd",
        "p@$$w0rd",
        "t0ken",
        "T0KEN",
        "P1N",
        "toKen",
        "cr3dent1als",
        "s3cr3t",
    ] {
        assert!(mentions_secret(text), "{text}");
    }
}

/// Messages and names of fields, as servers of all kinds ask for them.
#[rustfmt::skip]
const ORDINARY: &[(&str, &[&str])] = &[
    ("", &[""]),
    ("Which branch should the release start from?", &["branch", "base", "tag_name", "sign_off"]),
    ("Title of the issue, at most 80 characters", &["title", "body", "labels", "assignee", "milestone"]),
    ("Pin the issue for Pat?", &["pinned", "pin_order", "position"]),
    ("Book a table for tonight", &["name", "party_size", "date", "time", "phone", "allergies"]),
    ("Shipping address", &["street", "zip_code", "postalCode", "countryCode", "state", "card_message"]),
    ("Promo code, or QR code of the coupon", &["promo_code", "discount"]),
    ("Area code and phone number", &["areaCode", "phoneNumber"]),
    ("Code of the error, and code review?", &["code", "error_code", "reviewer", "source_code"]),
    ("Deploy 2 factors of the app to production? Use version 3", &["environment", "region", "replicas"]),
    ("Max tokens of the answer, and next page token", &["max_tokens", "maxTokens", "temperature", "pageToken"]),
    ("The token name, password length and API key prefix", &["token_name", "secretName", "token_type", "passwordLength"]),
    ("Primary key, foreign key and sort key of the table", &["primary_key", "foreignKey", "cacheKey", "host", "port", "schema"]),
    ("A compass, or words for the secretary", &["compass", "bypass", "heading", "secretary_name"]),
    ("Who passes, and who is the passenger with a passport?", &["passenger", "passport_country", "passed"]),
    ("Summary in 12 words; two words for the title", &["words", "wordCount", "keywords"]),
    ("Seed of the random numbers", &["seed", "random_seed", "iterations"]),
    ("Recovery time and backup schedule", &["cron", "retention_days", "backup"]),
    ("Cookie policy page, in one file", &["cookie_policy", "page"]),
    ("Session to resume", &["session_id", "sessionId", "turns"]),
    ("Your GitHub login, or the login page", &["login", "username", "login_url", "email"]),
    ("Author of the key results", &["author", "key", "objective", "keyResults"]),
    ("Give to Ken: art, a pattern, or the path", &["pattern", "path", "artist"]),
    ("Call the API: key facts only. Pass. Word count?", &["topic", "apiVersion"]),
    ("Secretion rate of the gland", &["rate"]),
    ("a, b, c or d? I/O at 5 V; S3 or B2", &["choice", "a", "b", "gpio", "bucket"]),
    ("Palabra clave, mot-clé, Schlüsselwort, parola chiave, palavra-chave, 关键词", &["palabra_clave", "mot_cle", "palavraChave"]),
    ("Desenhar um gráfico; dessiner un chiffre; Ключ к графику", &["desenho", "chiffre"]),
    ("¿Qué rama? Quelle branche ? Welcher Zweig? Какая ветка? 哪个分支？ どのブランチ？ أي فرع؟ कौन सी शाखा?", &["rama", "ветка", "分支"]),
];

#[test]
fn ordinary_forms_ask_for_no_secret() {
    for (message, fields) in ORDINARY {
        assert!(!mentions_secret(message), "{message}");
        for field in *fields {
            assert!(!is_secret_field(field), "{field}");
        }
    }
}

#[test]
fn label_asks_for_a_secret_in_a_sentence_and_not_by_its_name() {
    for label in [
        "I typed my password above",
        "Paste the token below",
        "Введите ваш пароль в поле выше",
        "Enter PIN",
    ] {
        assert!(label_asks_for_secret(label), "{label}");
    }
    for label in [
        "Password",
        "API access token",
        "OAuth",
        "Rotate the password",
        "Enter the name",
        "Type",
    ] {
        assert!(!label_asks_for_secret(label), "{label}");
    }
}

#[test]
fn text_too_long_to_be_read_counts_as_a_question_for_a_secret() {
    let long = "word ".repeat(MAX_TEXT_BYTES);
    assert!(mentions_secret(&long));
    // Texts of repeated parts take linear time.
    for part in ["$", "p ", "pass", "é\u{301}", "\u{202e}a", "1", "密", "aA"] {
        let text = part.repeat(MAX_TEXT_BYTES / 8 / part.len());
        let _ = (
            mentions_secret(&text),
            is_secret_field(&text),
            label_asks_for_secret(&text),
        );
    }
}

proptest! {
    #[test]
    fn secret_is_recognised_with_invisible_characters_anywhere(
        at in 0..SECRETS.len(),
        holes in prop::collection::vec((0..40_usize, 0..6_usize), 0..8),
    ) {
        let mut text: Vec<char> = SECRETS[at].chars().collect();
        for (place, kind) in holes {
            let invisible = ['\u{200b}', '\u{200d}', '\u{2060}', '\u{ad}', '\u{feff}', '\u{e0041}'];
            text.insert(place % (text.len() + 1), invisible[kind]);
        }
        let text: String = text.into_iter().collect();
        prop_assert!(mentions_secret(&text), "{:?}", text);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = (mentions_secret(&text), is_secret_field(&text), label_asks_for_secret(&text));
    }
}
