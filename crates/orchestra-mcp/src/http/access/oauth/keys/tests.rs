//! Signatures of others: of the RFCs, and of OpenSSL.

use serde_json::json;

use super::*;

/// RFC 7515, appendix A.2.
const RS256: (&str, &str) = (
    r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#,
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
);

/// RFC 7515, appendix A.3.
const ES256: (&str, &str) = (
    r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
);

/// RFC 8037, appendix A.4.
const ED25519: (&str, &str) = (
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
    "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
);

/// OpenSSL 3.
const ES384: (&str, &str) = (
    r#"{"kty":"EC","crv":"P-384","x":"bgEcG6TRgLNzpkHh_9MYsCRy45m66iR2FFMfb390FTUQ2o7vYcmsawsa9Rw4VVya","y":"oyW7ARAhKHKOnAUXZNWrjJYW1Bl_iP-86ASLwrpLO3fkMEPGKYa1RUwHdZG0qlAO"}"#,
    "eyJhbGciOiJFUzM4NCJ9.e30.XEGnzSBpSV5UwMuJS1t1ZWtTs_syIvlY69pY1MW_3ayq8tTlhsVtP-_2bbKgVHxS9OvcN7fam4Yj12JriQo0hNq-q2B0E61yNhNguS94byfLX6FtEWM2rm2RhQ-OV8Iq",
);

/// OpenSSL 3, with a zero before the number, as some issuers write it.
const RSA: &str = r#"{"kty":"RSA","e":"AQAB","n":"AMWTb_vMMOOo0Nh4poWrVpPQZpUWdSdY5fC7RnRr9YjKHvHmRsT-_C_lfycgeGC49ppqfOuSo0bRvv28ce1PrMC8A8FM7XFHwWgPIQtbdpGsN6OcAYd-XP8JHXDLqTT8IyuNPCwY-waa--uPc8horURnTfqKuy_brwadNkQvS26jjcT5FsKKB3e6xX6WRI4OJDQ1eahgO-twLQ7Zh-0KsoD0hgpaNtd4evnu50i9IlBOmGMdHW6exRVrr_SYKPP8V0dQdpjxYjDnTVKDcdYgWg84l6Kd3dRst3xOtxH3M5UyQM_GN9lebn2ePr_0HlMo7ZHYpLzTRwUjMQQ2RL8CE5U"}"#;

/// What that key has signed.
const OF_RSA: [(&str, &str); 5] = [
    (
        "RS384",
        "eyJhbGciOiJSUzM4NCJ9.e30.naTsKda50f7hXjLvmFhEOVkxPygXxaRnxbtxmf7W_Pv4Pb1Tu_SIlE9NrcALoi4owXf47QVoaXavsTSNL7s6ybkeS3qzDuIrfQByY4V08d37dG2fb_9BxW_dpIQyY-H3-pI87OMufCup4vKuPFOw8I3H__aNxkvrEtilzqJRKnPg20rQLB_PKwABNFbdA70NWKK_TSfP58bMlqWy_qjR6hksyRJvn2XaNMwXARc77btsbq-Kgib5EvcMuwsbvwtLgYg4-NQjaHEBNi0T7KLyXiancvA17fe3uDPQaw14iif22W2BRNyTn_uJ5SlnUcmqBkraHnGcXq6-mOiyOq0XSg",
    ),
    (
        "RS512",
        "eyJhbGciOiJSUzUxMiJ9.e30.ZLgI9xHw_HOZRox3tY2D2D2oTS4fin-1e358A3DgGUMl4-qo3Lvf-yY3e6aswUAYEkfv1tWBy_K6bKB5yunROZGL7GYLMNgCKjCMOkjqw0ZoE_b8juSqGAcF-JEcOe7E56HkHnaPBO1DZAF22hOH6uMkvkPDam3KixR4cKeMVGSeg9FWPQ1AZJhWfFyn0TyPIwGTB2YQvolNqa0gZ_ZhUlLsEU8e-rQ2zjaowXNpDpkmDWyk4IZi9ycTkXswIYqHBmLZYaG2Z9fYn9hkk6w6Eu-DrWCYr6fVmfW4sfNI6CV-Y_bj-Ad5h0tZf-T3TY60KCWqyEWbE7scWXS3V3R3hg",
    ),
    (
        "PS256",
        "eyJhbGciOiJQUzI1NiJ9.e30.gCWovUL3nP2oguxvHbIlCwGDjO3guVqyCzWcxLcpGBBj82sRjejeRYW-jnWWS0NbJK0SuCLldgPWzhEbBf-TTU-emeij1eVk0ueTAGofJlancsodofSOeEEwJrgjrN3c0M4hg0TgnPvhtfSGWyRpDfCfV93M2bpH7l1iEdUgWC34IpM6oxed_zWJhP2GkptGmHvKZMYInpblyzsDD9fhKC_v6piNxUysUD4WE39EBo1EmhCIX5PF4QL21DNF_JER7KYq7hbXgPh_g9qRCRoDBTY13UlsbiI-PrQXMSaMWY4UYagWvBbyzlMY6onsZsRT17B0FA8YwqvsPbP8DymoqA",
    ),
    (
        "PS384",
        "eyJhbGciOiJQUzM4NCJ9.e30.i0gNzv2dg4_GxRDAbfZxdMMieTlmIUIt2cDtrj8Ug6vouG-Rw3URDrHD-fnAZfWVuPOdE_GoNYl_Y7YNTlIEbsmVEJtYbcmBG77Ho7N--OWovFp7COJr-DGfLmv7jbJwff427geWx0Cm10RxxEpbwlvtGavTuhWsiyCXpzB-4MKf8JifGT3e2ZgY_vLAaQj2WyeOBhrkxXaiMueq_7u1lpg7S0PwGm9RzdzM6HO98Zy82K-QkmG_0f8shwFULfl7W-ckDZoNRixzQdOatdCCavSBxD54jgJmtAqJEC2tVw_nozLPoXDauka0a3fus0Bt-ivA3sGdnLDwxKkcKLmrSA",
    ),
    (
        "PS512",
        "eyJhbGciOiJQUzUxMiJ9.e30.wOq9iY7EUPIdQM9kwoSW7ogqbfEoPta9iO7xhxzOg89HidYMWp9_uC_S1-p40inQEh68k4u0DgtNj58Y76zHvWBXy0YsbUtY4eFG3Q-XdGfatfhSsZwfutX5V1eY6EAUe5QwsquvhqsH9R_C-Gsxiwc4FnIkUfeYg3YE5ofW2iTGkrMgU7tcwnmISpZC3xozFul8mb5fUDPonMLr3GoHkv0UYQRqqFG_WhvcjZZIJXlUSS1XX_pZma-433xsIEA7Jf0YJ5D6r68iCxhekCqDygP8gjkgHDVYLsBEWK5zUXQH-2nru_t7Uv0wNguOldF-shXOcfWiaAX7LFNT13o5nQ",
    ),
];

fn keys(all: &[&str]) -> Keys {
    let document = format!(r#"{{"keys":[{}]}}"#, all.join(","));
    Keys::parse(document.as_bytes()).unwrap()
}

fn verifies(keys: &Keys, name: &str, token: &str) -> bool {
    let (message, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let algorithm = Algorithm::named(name).unwrap();
    keys.verify(None, algorithm, message.as_bytes(), &signature)
}

const NAMES: [&str; 9] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA",
];

#[test]
fn signatures_of_others_are_verified_by_their_algorithm_alone() {
    let mut all = vec![
        (RS256.0, "RS256", RS256.1),
        (ES256.0, "ES256", ES256.1),
        (ED25519.0, "EdDSA", ED25519.1),
        (ES384.0, "ES384", ES384.1),
    ];
    all.extend(OF_RSA.map(|(name, token)| (RSA, name, token)));
    for (key, name, token) in all {
        let (keys, others) = (keys(&[key]), keys(&[ES256.0, ED25519.0, RS256.0]));
        for tried in NAMES {
            assert_eq!(
                verifies(&keys, tried, token),
                tried == name,
                "{tried} {name}"
            );
        }
        let changed = token.replacen(".e", ".f", 1).replacen(".R", ".S", 1);
        assert!(!verifies(&keys, name, &changed), "{name}");
        if key == RSA || key == ES384.0 {
            assert!(!verifies(&others, name, token), "{name}");
        }
    }
}

#[test]
fn secrets_and_nothing_are_no_algorithms() {
    for name in [
        "none", "None", "NONE", "", "HS256", "HS512", "rs256", "ES256K", "ES512", "RSA1_5",
    ] {
        assert_eq!(Algorithm::named(name), None, "{name}");
    }
}

#[test]
fn keys_for_something_else_are_left_out() {
    let of = |key: serde_json::Value| {
        let document = json!({"keys": [key]});
        Keys::parse(document.to_string().as_bytes())
    };
    let ed25519 = |more: serde_json::Value| {
        let mut key: serde_json::Value = serde_json::from_str(ED25519.0).unwrap();
        key.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        key
    };
    for more in [
        json!({}),
        json!({"use": "sig", "alg": "EdDSA", "key_ops": ["verify"], "x5t": "more"}),
        json!({"alg": "Ed25519", "kid": "a"}),
    ] {
        assert!(of(ed25519(more.clone())).is_ok(), "{more}");
    }
    let short = URL_SAFE_NO_PAD.encode([1; 128]);
    let long = URL_SAFE_NO_PAD.encode([1; 1_024]);
    for key in [
        ed25519(json!({"use": "enc"})),
        ed25519(json!({"key_ops": ["sign"]})),
        ed25519(json!({"alg": "HS256"})),
        ed25519(json!({"alg": "ECDH-ES"})),
        ed25519(json!({"crv": "X25519"})),
        ed25519(json!({"x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHUQ"})),
        ed25519(json!({"kid": 1})),
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": "RSA", "e": "AQAB", "n": short}),
        json!({"kty": "RSA", "e": "AQAB", "n": long}),
        json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}),
        json!("key"),
    ] {
        assert!(matches!(of(key.clone()), Err(KeysError::None)), "{key}");
    }
}

#[test]
fn a_document_that_is_no_set_of_keys_is_refused() {
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":"#] {
        let parsed = Keys::parse(text.as_bytes());
        assert!(matches!(parsed, Err(KeysError::Malformed(_))), "{text}");
    }
    let many = vec![ED25519.0; MOST_KEYS + 1].join(",");
    let many = Keys::parse(format!(r#"{{"keys":[{many}]}}"#).as_bytes());
    assert!(matches!(many, Err(KeysError::TooMany(65))));
}

#[test]
fn the_key_that_a_token_names_is_the_only_one_that_is_asked() {
    let with = |key: &str, id: &str| key.replacen('{', &format!(r#"{{"kid":"{id}","#), 1);
    let (own, other) = (with(ED25519.0, "own"), with(ES256.0, "other"));
    let keys = keys(&[&own, &other, ES384.0]);
    let ed25519 = Algorithm::Ed25519;
    assert!(keys.know(Some("own"), ed25519));
    assert!(keys.know(None, ed25519));
    assert!(!keys.know(Some("other"), ed25519), "it is for another");
    assert!(!keys.know(Some("none"), ed25519));
    assert!(!keys.know(Some("own"), Algorithm::Rs256));
    let (message, signature) = ED25519.1.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    for (id, expected) in [(Some("own"), true), (None, true), (Some("other"), false)] {
        let verified = keys.verify(id, ed25519, message.as_bytes(), &signature);
        assert_eq!(verified, expected, "{id:?}");
    }
}

#[test]
fn a_key_for_one_algorithm_verifies_no_other() {
    let only = RSA.replacen('{', r#"{"alg":"PS256","#, 1);
    let keys = keys(&[&only]);
    for (name, token) in OF_RSA {
        assert_eq!(verifies(&keys, name, token), name == "PS256", "{name}");
    }
}
