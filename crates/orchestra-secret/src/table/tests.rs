//! Literal samples: one of each row, program, word and option of the tables, so that a lost row fails a test.

use super::{
    TOKENS,
    commands::{FORMS, Take},
};
use crate::{MASK, text};

/// Prefixes and rests of tokens, in the order of the table. No scanner takes the two pieces for a token.
#[rustfmt::skip]
const TOKEN_SAMPLES: &[(&str, &str)] = &[
    ("ghp_", "a7B2c9k9qG34Tz6oC3Zx"), ("gho_", "a7B2c9d25sr4f5As3TB7"), ("ghu_", "a7B2c9eFFC3BCq3e2AV8"), ("ghs_", "a7B2c9ir9z7BjATJb6CB"),
    ("ghr_", "a7B2c9Fco6AL4B3EdwJz"), ("github_pat_", "a7B2c9sQkuCuojfRbKQf"), ("glpat-", "a7B2c95BjywXmMtiD47x"), ("gldt-", "a7B2c9raPm9wr2H4PABR"),
    ("glcbt-", "a7B2c9XTkmKnDwCSu4U5"), ("glffct-", "a7B2c9hvKH43MKjGBJTt"), ("glft-", "a7B2c9iLpXHn1unaE7w3"), ("glimt-", "a7B2c9dQi8NfqqZWw5at"),
    ("glagent-", "a7B2c9qAhX8TsWAhLrnJ"), ("gloas-", "a7B2c9Xpe95b9eHe0wUC"), ("glptt-", "a7B2c9bgi09rzoEBk8KV"), ("glrt-", "a7B2c9xEGJN3uYWQWJSA"),
    ("glrtr-", "a7B2c9qqqq6vFq3c4dta"), ("glsoat-", "a7B2c97mD360B9z6oE14"), ("glwt-", "a7B2c9WdEp9FgnDov77V"), ("GR1348941", "a7B2c9wuvvj596NmNgvU"),
    ("ATATT3", "a7B2c9Kay1dyo9KzZ1Py"), ("ATCTT3", "a7B2c9jGW5KVgyoZanQe"), ("ATBB", "a7B2c9zzQxmFeESRPVcS"), ("sgp_", "a7B2c9fTqNSecywnM11R"),
    ("bkua_", "a7b2c98f86bebb2737f6"), ("CCIPAT_", "a7B2c9mdvEYEU0vZGnSG"), ("CCIPRJ_", "a7B2c95UH7ZpRLPcvXbs"), ("npm_", "a7B2c9RFm5SMquqN5Maa"),
    ("pypi-", "a7B2c9819CYuSG9ETDvH"), ("rubygems_", "a7b2c9b440034d660869"), ("CLOJARS_", "a7B2c9xfPCkgzrU83ZNn"),
    ("cio", "a7B2c9YuHCTYyrTZXx8z9yx1WtQbD0QS"), ("dckr_pat_", "a7B2c99b9vEM7A3kJyyA"), ("dckr_oat_", "a7B2c9vRQ6XA3fch2Q6x"),
    ("oy2", "a7B2c9tA1PYZ4tkExDxcKhtxzSvxfKyXXgAYcUt8r7q"), ("AKCp", "a7B2c9tk4Hfs4dHjR7YQ9LGHo9gX8u"), ("cmVmd", "a7B2c9eN6qXwaHUeaLsxqmrcnk5Mo1"),
    ("sk-", "a7B2c9mAutL1pmyEix47"), ("sk-ant-", "a7B2c9ZReX65gh2YQbhP"), ("sk-proj-", "a7B2c98TsVZJTgq9zZxB"),
    ("sk-svcacct-", "a7B2c9wKk5h3SKbsY4h1"), ("sk-admin-", "a7B2c9F5Sg5DVe4gW7u0"), ("sk-or-", "a7B2c9mArZhE82yLf7ag"),
    ("sk-lf-", "a7B2c93bcjFjyPditxJb"), ("hf_", "a7B2c9hnS1g201MxAcxv"), ("api_org_", "a7B2c9ft6HTGsHwzUXqx"), ("gsk_", "a7B2c9jKdemcUXLMF8qn"),
    ("xai-", "a7B2c93U804FNXgsa35H"), ("r8_", "a7B2c9UpWxHiDfKi2uba"), ("nvapi-", "a7B2c9ht0gomAkf2Xjdn"), ("pplx-", "a7B2c9b0mp5vhxGcfxQ0"),
    ("lsv2_pt_", "a7B2c95gT59qC2q1jjFe"), ("lsv2_sk_", "a7B2c95CyVP9HYLRXDpP"), ("pcsk_", "a7B2c9kMw9iMEG92TULY"), ("tvly-", "a7B2c9xFsMKSx8ZyPxBU"),
    ("csk-", "a7B2c9TS1TJCSYLJKGe5"), ("jina_", "a7B2c9128Fo6pUtA3F1F"), ("fw_", "a7B2c9zJfwg0uS4NxYz5"), ("AIza", "a7B2c9Hy4NNvgS4VgfMP"),
    ("tgp_v1_", "a7B2c9deNGuwVp4vZJiQ"), ("sess-", "a7B2c92EFGc4D9mgGNKjEB80v3whJ6KdJwiL"), ("AKIA", "a7B2c9yiuuuQ7YAcj5v1"),
    ("ASIA", "a7B2c9iu4TxthpdZd4C5"), ("ABIA", "a7B2c99Nygo8DTFxhX7L"), ("ACCA", "a7B2c9oewYXwq1a0wJtq"),
    ("ABSK", "a7B2c9jM9rnpk7Um0kPmUq7cL0YNigo4qpWC4osP"), ("bedrock-api-key-", "a7B2c9hV3h63UHiF9fhs"), ("ya29.", "a7B2c9xkcQoRsX1SPFqZ"),
    ("GOCSPX-", "a7B2c9XAAdM53MrtEP8G"), ("1//0", "a7B2c9Wiw3ZA8avrmijg"), ("8Q~", "a7B2c9NNGgqGfjvAHq7aGa4d"), ("7Q~", "a7B2c9xYSwAetZmPts8Acf5b"),
    ("LTAI", "a7B2c9mA5kfogSBcX1NW"), ("dop_v1_", "a7B2c9rprNydphmP3whB"), ("doo_v1_", "a7B2c9o8JxyFRWVd5hYf"), ("dor_v1_", "a7B2c9pqGtsjVTW182sL"),
    ("HRKU-", "a7B2c9PYSvCw04qTyVut"), ("fo1_", "a7B2c9fR6e99yJ6TMKGV"), ("fm1r_", "a7B2c9PYu5AQ20R8eBZ2GLj8FgyFsKP764jyCcpg"),
    ("fm1a_", "a7B2c9eRD00zjuhkGUXfvyfAf1rLGj31cwXJGr5g"), ("fm2_", "a7B2c9eHsoew2KmLroJqc0SiNVx4dwcjQTceuegP"), ("rnd_", "a7B2c9Xi6EwEbYewrZH3"),
    ("nfp_", "a7B2c9D9q3d1D9r3L3bq"), ("v1.0-", "a7B2c9tYLXkM75amcbGyNu2jHMpUomta605h5nrX7APdpnQTjTSs53LvcozZ"),
    ("tk-us-", "a7B2c9tckoNYv1FrfSFQq2p2"), ("AQVN", "a7B2c9u4SZ3gcN4YDmohmE2gNLKkhj"), ("YC", "a7B2c90MPDZSF41Te6vLuQpRgZsTw8wb0SNjTK"),
    ("t1.", "a7B2c9Q9DfkWkuoRRD5xcqPafr4G2vAzkasX64gE5d6rwLtbe8ruEYJfNzVQ"), ("tskey-", "a7B2c9HP7QUiihBhogNg"), ("sbp_", "a7b2c96e7577496a2c87"),
    ("sb_secret_", "a7B2c9xyeGS6Gu260vXT"), ("pscale_tkn_", "a7B2c9eUtZo2Xie73cDT"), ("pscale_oauth_", "a7B2c9Cc4oxWbtDgQQH0"),
    ("pscale_pw_", "a7B2c96FDLEnd2om92dg"), ("dapi", "a7b2c9160adb59261ff2d3c425c8d99d"), ("sha256~", "a7B2c93jNBXnrr1WQSoGcqMqd0sYas"),
    ("dt0c01.", "a7B2c97T5qBXouQa803A9GSZq5BEoNxa9niaya46"), ("hvs.", "a7B2c9pwPSRScj8U2Zvk"), ("hvb.", "a7B2c93DFp5YLEKTYaFR"),
    ("hvr.", "a7B2c9VeEqEVcUvbBd2q"), (".atlasv1.", "a7B2c9yapn79fMTYc2XAUPJ2HUk7pDuAVFQjGrjC"), ("pul-", "a7b2c97dcbee500fe7ee5fc324bdb2"),
    ("dp.pt.", "a7B2c9StxxH22F85MkQM"), ("dp.st.", "a7B2c9x53PxYpGR81V4E"), ("dp.ct.", "a7B2c9MKT7c8XwiSZRaJ"), ("dp.sa.", "a7B2c9RMe4UnEPgakYEh"),
    ("pat.", "a7B2c9YTu9gxZvdCgExfko2cbqaFhJkYpaRRg7Qy3FVoWtAyCKXY6gzFVqNS"),
    ("sat.", "a7B2c9ogpoB9omP5tebEN3iTygjFWCHYkM0N2e9iEFsrxoY38weEG2130Bnj"), ("API-", "a7B2c96ynzerCjC8doEUva80Sf"),
    ("pnu_", "a7B2c9L9t64F9WHRhqSg03GTAYnDGC"), ("vercel_blob_rw_", "a7B2c9tDyMwfaY023z1q"), ("essu_", "a7B2c9bfa3ZQ60EAHc9r"),
    ("4/0A", "a7B2c9cyDGxGGrTEbxj4jF3XMRvLz0pVsNZu5NGt"), ("amzn.mws.", "a7B2c9be6geG27mYNKVgL3hFAJsJRZ"),
    ("4b1d", "a7B2c9ygiGYd5Xx0agYfUNcaNZkcXpmDfpZVFZ"), ("napi_", "a7B2c9KHUzvvUyK0V1sMeBXjRdqEC4BZa92176Ea"), ("sk_live_", "a7B2c9n9K1128KGF2K4N"),
    ("sk_test_", "a7B2c924VCPocTTzYH4X"), ("sk_prod_", "a7B2c9WPZLp6fdd722VZ"), ("rk_live_", "a7B2c9SPF5TPFFiv686R"),
    ("rk_test_", "a7B2c9PGdikmsg1ngi3L"), ("rk_prod_", "a7B2c9PoZkQDxvViEN1R"), ("whsec_", "a7B2c9r1syQ6nvL3zBdL"),
    ("shpat_", "a7B2c9WT5BTias0yciPP"), ("shpca_", "a7B2c930nw6wKRTbwCnU"), ("shppa_", "a7B2c9xgBaiTdKewa7FQ"), ("shpss_", "a7B2c95wRKAR6Fkn6qqY"),
    ("sq0atp-", "a7B2c9XN5sXG1odjgsYz"), ("sq0csp-", "a7B2c9xapXFeu8zDPKPD"), ("EAAA", "a7B2c9G2nCky9WUtHANkautKQgCe8muGXKfxchjP"),
    ("FLWSECK_TEST-", "a7B2c9LTUE9M9fMkDyna"), ("FLWSECK-", "a7B2c9fkcgM6aH6cp99R"), ("shippo_live_", "a7b2c999d863386ce10c"),
    ("shippo_test_", "a7b2c9d79e048c07dd77"), ("EZAK", "a7B2c9JbG7uskgFK6YrfRqLLFagVsvu1EVryJHWb"),
    ("EZTK", "a7B2c9YGkQ0pUwZ62gzdaLRcyn6VBuzdLvx1FRUo"), ("duffel_live_", "a7B2c9ymrNudJbqxP7ME"), ("duffel_test_", "a7B2c9nF3ghpq304rZrF"),
    ("access-sandbox-", "a7B2c9KJnCg6ejNqyeSquda8Q4SSFc"), ("access-production-", "a7B2c9vGAMeT9nHFUTRTruiPAG8QUv"),
    ("access-development-", "a7B2c9nRVehLpJgsJbv0SMShnfGjkv"), ("xoxb-", "a7B2c9wsEF5HYo9jVp35"), ("xoxp-", "a7B2c9TBYkR8yUnFC0H0"),
    ("xoxa-", "a7B2c9d4GigD6C9VebQt"), ("xoxr-", "a7B2c9nR9dYqRzaEYKDR"), ("xoxs-", "a7B2c95HYYARFUjcwKdy"), ("xoxo-", "a7B2c95NUtHX7A7greT8"),
    ("xoxe-", "a7B2c9vwA3vuY9Kwfwaz"), ("xoxc-", "a7B2c9DWN0aUkuKBwHiU"), ("xoxd-", "a7B2c9uosrJ4bFoFG11E"), ("xoxe.xoxb-", "a7B2c92JNmS6xvwPY92d"),
    ("xoxe.xoxp-", "a7B2c9LrF8m6WHomvQyA"), ("xapp-", "a7B2c9QZdismsgA3Tiin"), ("hooks.slack.com/services/", "a7B2c9TwqmxhWxndGwR7"),
    ("hooks.slack.com/workflows/", "a7B2c9mckLj8CF5R2qMA"), ("hooks.slack.com/triggers/", "a7B2c9XqzB3qj602cTZv"),
    ("discord.com/api/webhooks/", "a7B2c9DQH3RxZzEpE9FJ"), ("discordapp.com/api/webhooks/", "a7B2c9KKDXJ5d2HFuFPb"),
    ("webhook.office.com/webhookb2/", "a7B2c96HbW2rQ6ZG0oWT8RjALgWjbr2k1sBG"),
    ("outlook.office.com/webhook/", "a7B2c9CZ3wBy2T7QSrBKZqt40JpDCH9vQrA6"), ("hooks.zapier.com/hooks/catch/", "a7B2c95GvdY9F0s00JH7"),
    ("re_", "a7B2c9V5dW78v1hMBftMNb3oQNLKV9"), ("api.telegram.org/bot", "a7B2c9MP5iFALwuHXgZ3"), ("SG.", "a7B2c9L2030XGJTE5pjjMDaW"),
    ("xkeysib-", "a7B2c9UwD3koBMtvJa9S"), ("xsmtpsib-", "a7B2c97oGaFSrvpQRthR"), ("SK", "a7b2c9a981a049d7ccc7e90a88d51944"),
    ("key-", "a7b2c98fb2fc6791ce680ce2b27c8af6"), (":AA", "a7B2c9cdc5bSKioBBnqQyV9f2woW6o"), ("|", "a7B2c9FuR59kD1nhyD162dWWBwQ"),
    ("lin_api_", "a7B2c9CBdgQhs6tQCTD8"), ("lin_oauth_", "a7B2c9gU2mcbp5132AoW"), ("ntn_", "a7B2c9LuwVZY4WDFq7L5"),
    ("secret_", "a7B2c9gkBeG5ZHxqbtVaofMeb2gn3YAY1UZ3gRxL"), ("glsa_", "a7B2c9NGPv369kP0cJNj"), ("glc_", "a7B2c9CCtPG6vkogp7ovpatf"),
    ("NRAK-", "a7B2c9S9ZJY0uLZcS2aU"), ("NRII-", "a7B2c9e4EWoXN8Qt6pU1"), ("NRJS-", "a7B2c9F4tmkTev7Fo9me"), ("PMAK-", "a7B2c9N3bLtAX9tW9hrrf91h"),
    ("rdme_", "a7B2c9BUimSagw6kuYv79x3FYRHdAv"), ("sntrys_", "a7B2c9Ui7gPcosgff6pirYa3"), ("sntryu_", "a7b2c9940ea4e095bd1d6854"),
    ("sm_aat_", "a7B2c9UbyQeLbcD5U5XD"), ("sm_pat_", "a7B2c9MwPhbd8EHLFScC"), ("sm_sat_", "a7B2c9jc04KMyrUMZ3yS"),
    ("tfp_", "a7B2c9nmiUFWw50rZPv8WHhf"), ("figd_", "a7B2c9bBUo2aKoBDV0ny"), ("figo_", "a7B2c9ty47nLfTUWZkQL"), ("phx_", "a7B2c9WpBPY3iW6Mwtx1"),
    ("apify_api_", "a7B2c9ySz81f5eEba6jg"), ("fio-u-", "a7B2c9AT116KNcg1UDFB"), ("squ_", "a7b2c9e7e3b35183ef8333c4"),
    ("sqp_", "a7b2c9774ec50cd1c1bac7ad"), ("sqa_", "a7b2c9ac1a4b7d0b352ad607"),
    ("pat", "a7B2c98rqQuF2SXX22WGEhZJEhFzS2E6g7y0sf2i7jnGa73DZxYh5uCz9t7x8XiZrBihfN"), ("p8e-", "a7B2c95NziUuEKBeGpcALouY"),
    ("ops_eyJ", "a7B2c9AjEvvTj1fmecxzpCq0naWfkAkwhiXdi3Q1"), ("A3-", "a7B2c9aA4DWntH3ypUtnNP6yeJ"), ("AGE-SECRET-KEY-1", "a7B2c9N9rmHn8JcEEVhT"),
    ("dnkey-", "a7B2c9Uy6NVNPvhRFLFZL8rW60rQAC"), ("EAAM", "a7B2c97wqB9rVRhWED7pVtKuiMninqyADpGk0RNVwptjbzjS9sBpCe5TZmkUDUfkdsYZ013gBYwjZzQj"),
    ("EAAC", "a7B2c9zEsyTyMJspun2DJnt0J4ye6roxqGAB9XcrwqtQEYCmKyNT5aoko4Tjxb7GYiKmTxXrFayiTxdx"),
    ("eyJrIjoi", "a7B2c9Ycrb3FBD6nBFFM2Kr0R0jLKA0ZjqU6C0H1"), ("e2b_", "a7b2c965f846d34530325fed"), ("ddp_", "a7B2c9SS3G0JQCk9Lfnha2hF"),
    ("CFPAT-", "a7B2c96VYC4nctEp13eX"), ("esecret_", "a7B2c9qCP2t3Effe2aCV"), ("pat-na1-", "a7B2c9bk0YWTujrDgXw4fJpJLCerjq"),
    ("pat-eu1-", "a7B2c9XLw1RWf5banpb0XiqAo7mzWp"), ("v1.local.", "a7B2c9mqG47sTZnAfpcuinfs2hH1mS9fL85chzUR"),
    ("v2.local.", "a7B2c98AtuURSfaondMqpFCdjvxdeVtJ8LgDYtCo"), ("v3.local.", "a7B2c9zfqDxd8WP7Jx5zVhNQPp1HLB9j0pL5KbQV"),
    ("v4.local.", "a7B2c9ekcHY64AZoSxPjc4Lj5ei8TLqinqVZuQFX"), ("v1.public.", "a7B2c9FWW8hb1oJSHKnYr1HLKufVqnYF6bi7hZDM"),
    ("v2.public.", "a7B2c9eLJ2q2DascPj9pN2AjFFbBUeBwLygsHJBn"), ("v3.public.", "a7B2c907UPQGiY2XVCDK3fJ72RkdQZnNZ5rKNqNE"),
    ("v4.public.", "a7B2c9Uehy5nstmKxNKUUFFtx3JKdsJxVQ8wPc2K"),
];

/// Secret of the [`COMMAND_SAMPLES`]. As a word, it is masked by the form of a command and by no other rule.
const SECRET: &str = "swordfish7";

/// Programs of the rows of the table, in its order, and their command lines, in which `{}` is a program.
#[rustfmt::skip]
const COMMAND_SAMPLES: &[(&[&str], &[&str])] = &[
    (&["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlcheck", "mysqlpump", "mysqlbinlog", "mysqlslap", "mariadb", "mariadb-dump", "mariadb-admin", "mycli", "xtrabackup", "mariabackup"],
        &["{} -pswordfish7"]),
    (&["mysqladmin", "mariadb-admin"], &["{} password swordfish7"]),
    (&["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], &["{} -p swordfish7"]),
    (&["redis-cli", "valkey-cli", "redis-benchmark"], &["{} -a swordfish7"]),
    (&["redis-cli", "valkey-cli"], &["{} auth swordfish7", "{} AUTH swordfish7", "{} requirepass swordfish7", "{} masterauth swordfish7"]),
    (&["sqlcmd", "bcp", "osql"], &["{} -P swordfish7"]),
    (&["influx"], &["{} -t swordfish7", "{} -p swordfish7", "{} -P swordfish7"]),
    (&["clickhouse-client", "cqlsh", "cypher-shell", "tsql"], &["{} -t swordfish7", "{} -p swordfish7", "{} -P swordfish7"]),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"], &["{} -w swordfish7"]),
    (&["ldappasswd"], &["{} -s swordfish7", "{} -a swordfish7"]),
    (&["rabbitmqctl"], &["{} add_user one swordfish7", "{} change_password one swordfish7", "{} authenticate_user one swordfish7"]),
    (&["rabbitmqadmin", "beeline"], &["{} -p swordfish7"]),
    (&["mosquitto_pub", "mosquitto_sub", "mosquitto_rr", "ipmitool"], &["{} -P swordfish7"]),
    (&["snmpget", "snmpset", "snmpwalk", "snmpbulkwalk"], &["{} -A swordfish7", "{} -X swordfish7"]),
    (&["sqlplus", "sqlldr", "expdp", "impdp", "rman"], &["{} me/swordfish7@db"]),
    (&["sshpass"], &["{} -p swordfish7"]),
    (&["plink", "pscp", "psftp", "putty"], &["{} -pw swordfish7"]),
    (&["smbclient", "rpcclient", "smbget", "net"], &["{} -U me:swordfish7", "{} --user me:swordfish7"]),
    (&["lftp", "ftp", "sftp"], &["{} -u me:swordfish7"]),
    (&["ncftp", "ncftpput", "ncftpget", "rdesktop", "psexec"], &["{} -p swordfish7"]),
    (&["xfreerdp", "xfreerdp3", "wfreerdp", "mstsc"], &["{} /p:swordfish7"]),
    (&["curl", "wget", "wget2", "aria2c"], &["{} -u me:swordfish7", "{} --user me:swordfish7", "{} -U me:swordfish7", "{} --proxy-user me:swordfish7"]),
    (&["curl"], &["{} --oauth2-bearer swordfish7", "{} --pass swordfish7", "{} --proxy-pass swordfish7", "{} --tlspassword swordfish7"]),
    (&["curl"], &["{} -E me:swordfish7", "{} --cert me:swordfish7"]),
    (&["curl"], &["{} -b id=swordfish7", "{} --cookie id=swordfish7"]),
    (&["http", "https", "httpie", "xh", "xhs", "ab", "siege"], &["{} -a me:swordfish7", "{} --auth me:swordfish7", "{} -A me:swordfish7"]),
    (&["sudo"], &["echo swordfish7 | {} -S", "echo swordfish7 | {} --stdin"]),
    (&["chpasswd", "passwd", "smbpasswd", "kinit", "su", "cryptsetup", "vncpasswd"], &["echo swordfish7 | {}"]),
    (&["net"], &["{} user one swordfish7"]),
    (&["ssh-keygen"], &["{} -N swordfish7", "{} -P swordfish7"]),
    (&["usermod", "useradd"], &["{} -p swordfish7"]),
    (&["htpasswd", "mosquitto_passwd"], &["{} -b one two swordfish7"]),
    (&["htpasswd"], &["{} -n one swordfish7"]),
    (&["wpa_passphrase"], &["{} one swordfish7"]),
    (&["nmcli"], &["{} password swordfish7"]),
    (&["wpa_cli"], &["{} psk swordfish7", "{} password swordfish7"]),
    (&["security"],
        &["{} add-generic-password -w swordfish7", "{} add-generic-password -p swordfish7", "{} add-internet-password -w swordfish7", "{} unlock-keychain -w swordfish7"]),
    (&["7z", "7za", "7zr", "7zz", "rar", "unrar"], &["{} -pswordfish7", "{} -hpswordfish7"]),
    (&["zip", "unzip"], &["{} -P swordfish7"]),
    (&["openssl"], &["{} pass:swordfish7"]),
    (&["openssl"], &["{} enc -k swordfish7", "{} enc -K swordfish7"]),
    (&["openssl"], &["echo swordfish7 | {} stdin"]),
    (&["openssl"], &["{} passwd swordfish7"]),
    (&["keytool", "jarsigner", "apksigner"],
        &["{} -storepass swordfish7", "{} -keypass swordfish7", "{} -srcstorepass swordfish7", "{} -deststorepass swordfish7", "{} -srckeypass swordfish7", "{} -destkeypass swordfish7", "{} -new swordfish7"]),
    (&["apksigner"], &["{} pass:swordfish7"]),
    (&["gpg", "gpg2"], &["echo swordfish7 | {} --passphrase-fd"]),
    (&["ansible-vault"], &["{} encrypt_string swordfish7"]),
    (&["signtool"], &["{} sign /p swordfish7"]),
    (&["pdftk", "qpdf"], &["{} owner_pw swordfish7", "{} user_pw swordfish7", "{} input_pw swordfish7", "{} --encrypt swordfish7"]),
    (&["docker", "podman", "nerdctl", "buildah", "helm", "oras", "crane", "skopeo", "oc", "az", "regctl"], &["{} login -p swordfish7"]),
    (&["docker", "podman", "nerdctl", "buildah", "helm", "oras", "crane", "skopeo", "regctl", "gh", "glab", "ghcr"],
        &["echo swordfish7 | {} --password-stdin", "echo swordfish7 | {} --with-token", "echo swordfish7 | {} --stdin"]),
    (&["skopeo", "podman", "buildah"], &["{} --creds me:swordfish7", "{} --src-creds me:swordfish7", "{} --dest-creds me:swordfish7"]),
    (&["docker", "podman"], &["echo swordfish7 | {} secret"]),
    (&["kubectl", "oc", "k3s", "microk8s"], &["{} secret --docker-password swordfish7"]),
    (&["gh"], &["{} secret -b swordfish7", "{} secret --body swordfish7"]),
    (&["gh", "wrangler", "vercel", "flyctl", "fly", "firebase", "gcloud", "vault", "kubeseal", "aws"],
        &["echo swordfish7 | {} secret", "echo swordfish7 | {} secrets", "echo swordfish7 | {} env", "echo swordfish7 | {} functions:secrets:set"]),
    (&["vault", "bao"], &["echo swordfish7 | {} -"]),
    (&["fly", "flyctl", "doppler", "supabase", "infisical", "netlify"], &["{} secrets key=swordfish7", "{} env:set key=swordfish7"]),
    (&["heroku"], &["{} config:set key=swordfish7", "{} config:add key=swordfish7"]),
    (&["vault", "bao", "consul"], &["{} put key=swordfish7", "{} write key=swordfish7", "{} patch key=swordfish7"]),
    (&["vault", "bao"], &["{} login swordfish7"]),
    (&["bao", "vault"], &["{} unseal swordfish7"]),
    (&["aws"], &["{} put-parameter --value swordfish7"]),
    (&["aws"], &["{} create-secret --secret-string swordfish7", "{} put-secret-value --secret-string swordfish7", "{} update-secret --secret-string swordfish7"]),
    (&["aws"], &["{} aws_secret_access_key swordfish7", "{} aws_session_token swordfish7", "{} aws_access_key_id swordfish7"]),
    (&["az"], &["{} secret --value swordfish7"]),
    (&["consul"], &["{} put one swordfish7"]),
    (&["rclone"],
        &["{} secret_access_key swordfish7", "{} access_key_id swordfish7", "{} client_secret swordfish7", "{} pass swordfish7", "{} token swordfish7", "{} key swordfish7"]),
    (&["twine", "poetry"], &["{} upload -p swordfish7", "{} publish -p swordfish7"]),
    (&["gem", "nuget"], &["{} push -k swordfish7"]),
    (&["dotnet"], &["{} user-secrets one two swordfish7"]),
    (&["bundle"], &["{} config gems.example swordfish7"]),
    (&["glab", "fly", "flyctl", "doctl"], &["{} login -t swordfish7", "{} auth -t swordfish7"]),
    (&["flyctl", "vercel"], &["{} -t swordfish7"]),
    (&["kaggle"], &["{} set -v swordfish7"]),
    (&["cloudflared"], &["{} install swordfish7"]),
    (&["terraform", "tofu", "hcloud"], &["echo swordfish7 | {} login", "echo swordfish7 | {} create"]),
    (&["cargo"], &["{} login swordfish7"]),
    (&["cargo", "npm", "yarn"], &["echo swordfish7 | {} login"]),
    (&["npm", "pnpm", "yarn", "bun"], &["{} _authToken swordfish7", "{} npmAuthToken swordfish7", "{} _auth swordfish7", "{} _password swordfish7"]),
    (&["poetry"], &["{} pypi-token.example swordfish7"]),
    (&["poetry", "composer"], &["{} http-basic.example one swordfish7"]),
    (&["composer"], &["{} github-oauth.example swordfish7", "{} gitlab-token.example swordfish7", "{} gitlab-oauth.example swordfish7", "{} bearer.example swordfish7"]),
    (&["snyk"], &["{} auth swordfish7"]),
    (&["ngrok"], &["{} authtoken swordfish7", "{} add-authtoken swordfish7"]),
    (&["grafana-cli", "grafana"], &["{} reset-admin-password swordfish7"]),
    (&["huggingface-cli", "hf"], &["{} login --token swordfish7"]),
    (&["wandb"], &["{} login swordfish7"]),
    (&["sentry-cli"], &["{} login --auth-token swordfish7"]),
    (&["sonar-scanner"], &["{} -Dsonar.login=swordfish7", "{} -Dsonar.token=swordfish7"]),
    (&["mvn", "gradle", "java"], &["{} -Djavax.net.ssl.keyStorePassword=swordfish7", "{} -Djavax.net.ssl.trustStorePassword=swordfish7"]),
    (&["mc"], &["{} set one two three swordfish7", "{} host one two three swordfish7", "{} alias one two three swordfish7"]),
    (&["restic", "borg", "rclone"], &["{} obscure swordfish7"]),
];

#[test]
fn each_token_form_has_a_sample_that_is_masked() {
    let forms: Vec<&str> = TOKENS.iter().map(|token| token.prefix).collect();
    let sampled: Vec<&str> = TOKEN_SAMPLES.iter().map(|(prefix, _)| *prefix).collect();
    assert_eq!(forms, sampled);
    for (prefix, rest) in TOKEN_SAMPLES {
        // These follow the number of a bot or of an app.
        let before = match *prefix {
            ":AA" | "|" => "012345678901234",
            _ => "",
        };
        let token = format!("got {before}{prefix}{rest} here");
        assert_eq!(text(&token), format!("got {before}{prefix}{MASK} here"));
    }
}

#[test]
fn each_form_of_a_command_has_samples_that_are_masked() {
    let forms: Vec<&[&str]> = FORMS.iter().map(|form| form.programs).collect();
    let sampled: Vec<&[&str]> = COMMAND_SAMPLES
        .iter()
        .map(|(programs, _)| *programs)
        .collect();
    assert_eq!(forms, sampled);
    let mut unmasked = Vec::new();
    for (form, (programs, lines)) in FORMS.iter().zip(COMMAND_SAMPLES) {
        let options = match form.take {
            Take::Value(options)
            | Take::Next(options)
            | Take::Glued(options)
            | Take::Pair(options)
            | Take::Named(options)
            | Take::Prefixed(options) => options,
            Take::Login | Take::Host | Take::Positional(_) | Take::Assigned | Take::Stdin => &[],
        };
        for word in form.after.iter().chain(options) {
            let is_sampled = lines.iter().any(|line| line.contains(&format!(" {word}")));
            assert!(is_sampled, "{programs:?} has no sample of {word}");
        }
        let lines = lines
            .iter()
            .flat_map(|line| programs.iter().map(|program| line.replace("{}", program)));
        unmasked.extend(lines.filter(|line| text(line).contains(SECRET)));
    }
    assert!(unmasked.is_empty(), "{}", unmasked.join("\n"));
}
