//! Texts with a secret in each form of the table, for tests and for `cargo xtask secrets`.

use crate::table::{Alphabet, Before, TOKENS};

/// Text that contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Text, such as a line of output or a command line.
    pub text: String,
    /// Part of it that must not remain.
    pub secret: String,
}

/// Names in the notations of [`NOTATIONS`].
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "DB_PASSPHRASE", "GITHUB_TOKEN", "password", "api_key", "clientSecret", "X-Auth-Token", "AWS_SECRET_ACCESS_KEY", "private_key",
    "STRIPE_API_KEY", "db.password", "access_token", "MYSQL_ROOT_PASSWORD", "x-api-key", "refreshToken", "npm_config__authToken",
    "SONAR_TOKEN", "encryption-key", "credentials", "PGPASSWORD",
];

/// Notations of a name `N` and its value `V`.
#[rustfmt::skip]
const NOTATIONS: &[&str] = &[
    "N=V", "export N=V", "env N=V ./run", "set N='V'", "N=\"V\" ./run", "N: V", "N: 'V'", "  \"N\": \"V\",", "{\"N\":\"V\"}", "{\\\"N\\\": \\\"V\\\"}",
    "--N V", "--N=V", "--N 'V' --verbose", "https://host.example/path?N=V&page=2", "<N>V</N>", "os.environ['N'] = 'V'", "'N' => 'V'", "N := \"V\"", "N = \"V\"",
    "curl -H 'N: V' https://host.example", "a=1\\nN=V\\nb=2", "docker run -e N=V image", "sudo N=V make", "{\"env\":[\"N=V\"]}", "values N=V; next", "(\"N\", \"V\")",
];

/// Command lines and headers with a secret `V`.
#[rustfmt::skip]
const LINES: &[&str] = &[
    "mysql -u root -pV shop", "mysqldump -uroot -p'V' shop", "mysqladmin -u root password V", "PGPASSWORD=V psql -h db", "psql postgres://app:V@db/shop", "redis-cli -a V ping",
    "redis-cli AUTH V", "mongosh -u root -p V", "sqlcmd -S db -U sa -P V", "sshpass -p V ssh me@host", "sshpass -pV ssh me@host", "curl -u me:V https://host.example",
    "curl -ume:V https://host.example", "curl --user \"me:V\" https://host.example", "curl -H 'Authorization: Bearer V' https://host.example", "curl -H \"Authorization: Basic V\" x",
    "curl --oauth2-bearer V https://host.example", "wget --password=V https://host.example", "wget --http-password V https://host.example", "http -a me:V host.example",
    "kubectl create secret generic x --from-literal=k=V", "kubectl create secret generic x --from-literal k='V'", "kubectl create secret docker-registry r --docker-password=V",
    "helm upgrade x . --set auth.password=V", "terraform apply -var db_password=V", "ansible-playbook x.yml -e ansible_become_pass=V", "docker login -u me -p V registry.example",
    "docker login --password V", "echo V | docker login -u me --password-stdin", "printf '%s' V | docker login --password-stdin", "podman login -u me -p V registry.example", "skopeo copy --src-creds me:V a b",
    "echo V | sudo -S make install", "echo 'V' | sudo -S -k make", "sudo -S make <<< V", "echo me:V | chpasswd", "echo V | gh auth login --with-token", "gh secret set NAME --body V", "cargo login V",
    "vault login V", "vault kv put secret/app key=V", "npm config set //registry.example/:_authToken V", "npm config set //registry.example/:_authToken=V", "twine upload -u me -p V dist/*", "snyk auth V",
    "ngrok config add-authtoken V", "aws configure set aws_secret_access_key V", "aws ssm put-parameter --name x --value V", "aws secretsmanager create-secret --secret-string V", "az login -u me -p V",
    "heroku config:set KEY=V", "fly secrets set KEY=V", "openssl enc -aes-256-cbc -k V", "openssl rsa -passin pass:V", "7z a -pV x.7z", "zip -P V x.zip y", "unzip -P V x.zip", "gpg --batch --passphrase V -d x",
    "keytool -storepass V -list", "ldapsearch -w V -D cn=admin", "smbclient //host/share -U me%V", "lftp -u me,V host", "xfreerdp /u:me /p:V /v:host", "plink -pw V me@host", "htpasswd -b .htpasswd me V",
    "rabbitmqctl add_user me V", "bash -c 'mysql -pV shop'", "ssh host \"mysql -pV shop\"", "sudo -u app mysql -pV shop", "cd /x && mysql -pV shop; ls", "/usr/bin/mysql -pV", "sshpass -p 'V' scp a b",
    "set password V", "SET PASSWORD = 'V'", "SET PASSWORD FOR 'me'@'host' = PASSWORD('V')", "ALTER USER me IDENTIFIED BY 'V'", "CREATE ROLE me WITH LOGIN PASSWORD 'V'", "config set requirepass V",
    "machine host.example login me password V", "the password is V", "Server=db;Uid=me;Pwd=V;", "Endpoint=sb://x/;SharedAccessKey=V", "AccountName=x;AccountKey=V;", "Authorization: Bearer V",
    "Authorization: token V", "authorization: ApiKey V", "Proxy-Authorization: Basic V", "Cookie: session=V; theme=dark", "Set-Cookie: sid=V; Path=/; HttpOnly", "X-Api-Key: V", "Private-Token: V", "bearer V",
    "git clone https://me:V@host.example/x.git", "https://V@host.example/x.git", "https_proxy=http://me:V@proxy:3128", "amqp://me:V@mq:5672/", "https://host.example/cb?code=V&x=1", "https://host.example/x?sig=V",
    "https://host.example/x?a=1&X-Amz-Signature=V", "//registry.example/:_authToken=V", "_auth=V", "login = me, password = V", "failed: password=V host=db", "msg=\"bad token\" token=V", "{'password': 'V'}",
    "curl -su me:V https://host.example", "curl -sSLu me:V https://host.example", "curl -sume:V https://host.example", "curl -b 'sessionid=V' https://host.example", "curl -E cert.pem:V https://host.example",
    "zip -eP V x.zip y", "sshpass -vp V ssh me@host", "ldapsearch -xw V -D cn=admin", "echo V | sudo -SH make", "echo V | sudo -HS make", "(echo V; cat) | sudo -S make", "{ echo V; } | sudo -S make",
    "yes V | sudo -S make", "cat <<< V | sudo -S make", "sudo -Sp '' make <<< V", "sudo -S make < <(echo V)", "https://V:x-oauth-basic@host.example/x", "https://V:@host.example/x", "root:V@tcp(db:3306)/shop",
    "sqlplus me/V@orcl", "jdbc:oracle:thin:me/V@db:1521:x", "db:5432:shop:me:V", "*:*:*:me:V", "setenv DB_PASSWORD V", "setx DB_PASSWORD V", "set -gx DB_PASSWORD V", "SET PASSWORD FOR me = 'V'",
    "CREATE USER me IDENTIFIED WITH mysql_native_password BY 'V'", "ALTER LOGIN me WITH PASSWORD = N'V'", "AUTH me V", "ACL SETUSER me on >V ~*", "{\"name\":\"DB_PASSWORD\",\"value\":\"V\"}",
    "{\"value\": \"V\", \"name\": \"DB_PASSWORD\"}", "{\"password\": {\"value\": \"V\"}}", "{\"tokens\":[\"V\"]}", "[[\"password\",\"V\"]]", "password: \"horse V battery\"", "<password><![CDATA[V]]></password>",
    "unzip -oP V x.zip", "ssh-keygen -yP V -f k", "rdb.ACLSetUser(ctx, \"me\", \">V\")", "redis.acl('SETUSER', 'me', '>V')",
    "sqlplus me/V@//db:1521/orcl", "expdp me/V@db:1521/orclpdb", "root:Ab3/V@tcp(db:3306)/shop", "set --export DB_PASSWORD V", "zip -qrP V x.zip y",
    "<password><![CDATA[a<V]]></password>", "<entry key=\"password\">V</entry>", "[sudo] password for me: V", "Enter password: V", "| password | V |", "Authorization: Digest username=\"me\", response=\"V\"",
];

/// Texts with a secret that is derived from `seed`, for every token form, name and command line of the samples.
#[must_use]
pub fn samples(seed: &str) -> Vec<Sample> {
    let mut random = Random::new(seed);
    let mut samples: Vec<Sample> = tokens(seed).into_iter().map(|(_, sample)| sample).collect();
    let mut add = |text: &str, name: &str, secret: String| {
        let text = text.replace('N', "\u{1}").replace('V', "\u{2}");
        let text = text.replace('\u{1}', name).replace('\u{2}', &secret);
        samples.push(Sample { text, secret });
    };
    for name in NAMES {
        for notation in NOTATIONS {
            add(notation, name, random.password());
        }
    }
    for line in LINES {
        add(line, "N", random.password());
    }
    let key: String = (0..12)
        .map(|_| random.text(Alphabet::Alnum, 64) + "\n")
        .collect();
    samples.push(Sample {
        text: format!("-----BEGIN RSA PRIVATE KEY-----\n{key}-----END RSA PRIVATE KEY-----"),
        secret: key.lines().nth(3).unwrap_or_default().to_owned(),
    });
    samples
}

/// A token of each form with the prefix that remains of it.
#[must_use]
pub fn tokens(seed: &str) -> Vec<(&'static str, Sample)> {
    let mut random = Random::new(seed);
    let mut tokens: Vec<(&str, Sample)> = Vec::new();
    for form in TOKENS {
        let secret = random.text(form.alphabet, form.min.max(20));
        let before = match form.before {
            Before::Digits(_) => "012345678901234",
            Before::Any | Before::Boundary => "",
        };
        let text = format!("got {before}{}{secret} here", form.prefix);
        tokens.push((form.prefix, Sample { text, secret }));
    }
    let parts: Vec<String> = (0..3).map(|_| random.text(Alphabet::Alnum, 24)).collect();
    let secret = parts.join(".");
    tokens.push((
        "eyJ",
        Sample {
            text: format!("got eyJ{secret} here"),
            secret,
        },
    ));
    tokens
}

/// Reproducible random texts.
struct Random(u64);

impl Random {
    fn new(seed: &str) -> Self {
        let hash = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash | 1)
    }

    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % below.max(1)
    }

    /// Text of letters and digits that begins with both.
    fn text(&mut self, alphabet: Alphabet, length: usize) -> String {
        let letters: &[u8] = match alphabet {
            Alphabet::Hex => b"0123456789abcdef",
            _ => b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        };
        let mut text = String::from("a7B2c9");
        if alphabet == Alphabet::Hex {
            text = "a7b2c9".to_owned();
        }
        while text.len() < length {
            text.push(char::from(letters[self.next(letters.len())]));
        }
        text
    }

    fn password(&mut self) -> String {
        format!("planted{}", self.text(Alphabet::Alnum, 14))
    }
}
