//! Command lines of well-known programs that contain secrets.
//!
//! Facts from the manual pages of the programs, read on 2026-11-28. Options whose names mean a secret
//! (`--password`, `--token`) need no row: they are found by name with every program.

/// Position of a secret in the arguments of a program.
#[derive(Debug, Clone, Copy)]
pub enum Take {
    /// The word after one of these options, or the rest of the word behind the option: `-p X`, `-pX`, `-p=X`.
    Value(&'static [&'static str]),
    /// The word after one of these options only: `-p X`.
    Next(&'static [&'static str]),
    /// The rest of the word behind one of these options only: `-pX`.
    Glued(&'static [&'static str]),
    /// The part after the first `:`, `%` or `,` of the value of one of these options: `-u user:X`.
    Pair(&'static [&'static str]),
    /// The part after the first `=` of the value of one of these options: `-b name=X`.
    Named(&'static [&'static str]),
    /// The part between `/` and `@` of the login of Oracle: `user/X@database`.
    Login,
    /// The word after the name of a host.
    Host,
    /// The rest of a word behind one of these prefixes: `pass:X`.
    Prefixed(&'static [&'static str]),
    /// The positional argument with this index, counted from the last word of [`Form::after`].
    Positional(usize),
    /// The value of each `name=value` argument.
    Assigned,
    /// The standard input: `echo X | program`, `program <<< X`.
    Stdin,
}

/// Form of a command line.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Names of the programs.
    pub programs: &'static [&'static str],
    /// Words of which one precedes the secret; none is required when this is empty. A word that ends with `.` is the
    /// beginning of a longer one, and an option of one letter may be among other such options.
    pub after: &'static [&'static str],
    /// Position of the secret.
    pub take: Take,
}

const fn form(
    programs: &'static [&'static str],
    after: &'static [&'static str],
    take: Take,
) -> Form {
    Form {
        programs,
        after,
        take,
    }
}

use Take::{Assigned, Glued, Host, Login, Named, Next, Pair, Positional, Prefixed, Stdin, Value};

/// Command-line forms. A program may have several.
#[rustfmt::skip]
pub const FORMS: &[Form] = &[
    // Databases.
    form(&["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlcheck", "mysqlpump", "mysqlbinlog", "mysqlslap", "mariadb", "mariadb-dump", "mariadb-admin", "mycli", "xtrabackup", "mariabackup"], &[], Glued(&["-p"])),
    form(&["mysqladmin", "mariadb-admin"], &["password"], Positional(0)),
    form(&["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], &[], Value(&["-p"])),
    form(&["redis-cli", "valkey-cli", "redis-benchmark"], &[], Value(&["-a"])),
    form(&["redis-cli", "valkey-cli"], &["auth", "AUTH", "requirepass", "masterauth"], Positional(0)),
    form(&["sqlcmd", "bcp", "osql"], &[], Value(&["-P"])),
    // Its long options have one dash too: `-host`.
    form(&["influx"], &[], Next(&["-t", "-p", "-P"])),
    form(&["clickhouse-client", "cqlsh", "cypher-shell", "tsql"], &[], Value(&["-t", "-p", "-P"])),
    form(&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"], &[], Value(&["-w"])),
    form(&["ldappasswd"], &[], Value(&["-s", "-a"])),
    form(&["rabbitmqctl"], &["add_user", "change_password", "authenticate_user"], Positional(1)),
    form(&["rabbitmqadmin", "beeline"], &[], Value(&["-p"])),
    form(&["mosquitto_pub", "mosquitto_sub", "mosquitto_rr", "ipmitool"], &[], Value(&["-P"])),
    form(&["snmpget", "snmpset", "snmpwalk", "snmpbulkwalk"], &[], Value(&["-A", "-X"])),
    form(&["sqlplus", "sqlldr", "expdp", "impdp", "rman"], &[], Login),
    // Remote shells and file transfer.
    form(&["sshpass"], &[], Value(&["-p"])),
    form(&["plink", "pscp", "psftp", "putty"], &[], Next(&["-pw"])),
    form(&["smbclient", "rpcclient", "smbget", "net"], &[], Pair(&["-U", "--user"])),
    form(&["lftp", "ftp", "sftp"], &[], Pair(&["-u"])),
    form(&["ncftp", "ncftpput", "ncftpget", "rdesktop", "psexec"], &[], Value(&["-p"])),
    form(&["xfreerdp", "xfreerdp3", "wfreerdp", "mstsc"], &[], Prefixed(&["/p:"])),
    // HTTP clients.
    form(&["curl", "wget", "wget2", "aria2c"], &[], Pair(&["-u", "--user", "-U", "--proxy-user"])),
    form(&["curl"], &[], Value(&["--oauth2-bearer", "--pass", "--proxy-pass", "--tlspassword"])),
    form(&["curl"], &[], Pair(&["-E", "--cert"])),
    form(&["curl"], &[], Named(&["-b", "--cookie"])),
    form(&["http", "https", "httpie", "xh", "xhs", "ab", "siege"], &[], Pair(&["-a", "--auth", "-A"])),
    // Users of the machine.
    form(&["sudo"], &["-S", "--stdin"], Stdin),
    form(&["chpasswd", "passwd", "smbpasswd", "kinit", "su", "cryptsetup", "vncpasswd"], &[], Stdin),
    form(&["net"], &["user"], Positional(1)),
    form(&["ssh-keygen"], &[], Value(&["-N", "-P"])),
    form(&["usermod", "useradd"], &[], Value(&["-p"])),
    form(&["htpasswd", "mosquitto_passwd"], &["-b"], Positional(2)),
    form(&["htpasswd"], &["-n"], Positional(1)),
    form(&["wpa_passphrase"], &[], Positional(1)),
    form(&["nmcli"], &["password"], Positional(0)),
    form(&["wpa_cli"], &["psk", "password"], Positional(0)),
    form(&["security"], &["add-generic-password", "add-internet-password", "unlock-keychain"], Value(&["-w", "-p"])),
    // Archives and cryptography.
    form(&["7z", "7za", "7zr", "7zz", "rar", "unrar"], &[], Glued(&["-p", "-hp"])),
    form(&["zip", "unzip"], &[], Value(&["-P"])),
    form(&["openssl"], &[], Prefixed(&["pass:"])),
    form(&["openssl"], &["enc"], Value(&["-k", "-K"])),
    form(&["openssl"], &["stdin"], Stdin),
    form(&["openssl"], &["passwd"], Positional(0)),
    form(&["keytool", "jarsigner", "apksigner"], &[], Next(&["-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-srckeypass", "-destkeypass", "-new"])),
    form(&["apksigner"], &[], Prefixed(&["pass:"])),
    form(&["gpg", "gpg2"], &["--passphrase-fd"], Stdin),
    form(&["ansible-vault"], &["encrypt_string"], Positional(0)),
    form(&["signtool"], &["sign"], Next(&["/p"])),
    form(&["pdftk", "qpdf"], &["owner_pw", "user_pw", "input_pw", "--encrypt"], Positional(0)),
    // Containers and clusters.
    form(&["docker", "podman", "nerdctl", "buildah", "helm", "oras", "crane", "skopeo", "oc", "az", "regctl"], &["login"], Value(&["-p"])),
    form(&["docker", "podman", "nerdctl", "buildah", "helm", "oras", "crane", "skopeo", "regctl", "gh", "glab", "ghcr"], &["--password-stdin", "--with-token", "--stdin"], Stdin),
    form(&["skopeo", "podman", "buildah"], &[], Pair(&["--creds", "--src-creds", "--dest-creds"])),
    form(&["docker", "podman"], &["secret"], Stdin),
    form(&["kubectl", "oc", "k3s", "microk8s"], &["secret"], Next(&["--docker-password"])),
    form(&["gh"], &["secret"], Value(&["-b", "--body"])),
    form(&["gh", "wrangler", "vercel", "flyctl", "fly", "firebase", "gcloud", "vault", "kubeseal", "aws"], &["secret", "secrets", "env", "functions:secrets:set"], Stdin),
    form(&["vault", "bao"], &["-"], Stdin),
    // Hosts, registries and services.
    form(&["fly", "flyctl", "doppler", "supabase", "infisical", "netlify"], &["secrets", "env:set"], Assigned),
    form(&["heroku"], &["config:set", "config:add"], Assigned),
    form(&["vault", "bao", "consul"], &["put", "write", "patch"], Assigned),
    form(&["vault", "bao"], &["login"], Positional(0)),
    form(&["bao", "vault"], &["unseal"], Positional(0)),
    form(&["aws"], &["put-parameter"], Value(&["--value"])),
    form(&["aws"], &["create-secret", "put-secret-value", "update-secret"], Value(&["--secret-string"])),
    form(&["aws"], &["aws_secret_access_key", "aws_session_token", "aws_access_key_id"], Positional(0)),
    form(&["az"], &["secret"], Value(&["--value"])),
    form(&["consul"], &["put"], Positional(1)),
    form(&["rclone"], &["secret_access_key", "access_key_id", "client_secret", "pass", "token", "key"], Positional(0)),
    form(&["twine", "poetry"], &["upload", "publish"], Value(&["-p"])),
    form(&["gem", "nuget"], &["push"], Value(&["-k"])),
    form(&["dotnet"], &["user-secrets"], Positional(2)),
    form(&["bundle"], &["config"], Host),
    form(&["glab", "fly", "flyctl", "doctl"], &["login", "auth"], Value(&["-t"])),
    form(&["flyctl", "vercel"], &[], Value(&["-t"])),
    form(&["kaggle"], &["set"], Value(&["-v"])),
    form(&["cloudflared"], &["install"], Positional(0)),
    form(&["terraform", "tofu", "hcloud"], &["login", "create"], Stdin),
    form(&["cargo"], &["login"], Positional(0)),
    form(&["cargo", "npm", "yarn"], &["login"], Stdin),
    form(&["npm", "pnpm", "yarn", "bun"], &["_authToken", "npmAuthToken", "_auth", "_password"], Positional(0)),
    form(&["poetry"], &["pypi-token."], Positional(0)),
    form(&["poetry", "composer"], &["http-basic."], Positional(1)),
    form(&["composer"], &["github-oauth.", "gitlab-token.", "gitlab-oauth.", "bearer."], Positional(0)),
    form(&["snyk"], &["auth"], Positional(0)),
    form(&["ngrok"], &["authtoken", "add-authtoken"], Positional(0)),
    form(&["grafana-cli", "grafana"], &["reset-admin-password"], Positional(0)),
    form(&["huggingface-cli", "hf"], &["login"], Value(&["--token"])),
    form(&["wandb"], &["login"], Positional(0)),
    form(&["sentry-cli"], &["login"], Value(&["--auth-token"])),
    form(&["sonar-scanner"], &[], Prefixed(&["-Dsonar.login=", "-Dsonar.token="])),
    form(&["mvn", "gradle", "java"], &[], Prefixed(&["-Djavax.net.ssl.keyStorePassword=", "-Djavax.net.ssl.trustStorePassword="])),
    form(&["mc"], &["set", "host", "alias"], Positional(3)),
    form(&["restic", "borg", "rclone"], &["obscure"], Positional(0)),
];
