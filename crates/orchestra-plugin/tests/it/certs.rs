//! Certificates on disk: made, read back, renewed, rotated, and never overwritten by mistake.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    thread,
    time::{Duration, SystemTime},
};

use orchestra_plugin::{
    certs::{CertDir, CertError, VALIDITY},
    ids::{CertName, PluginId},
};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn name(text: &str) -> CertName {
    text.parse().unwrap()
}

fn empty() -> (TempDir, CertDir) {
    let home = TempDir::new().unwrap();
    let dir = CertDir::open(CertDir::locate("", Some(home.path())).unwrap()).unwrap();
    (home, dir)
}

fn with_ca() -> (TempDir, CertDir) {
    let (home, dir) = empty();
    dir.ensure_ca(SystemTime::now()).unwrap();
    (home, dir)
}

#[test]
fn a_directory_is_named_from_the_home_directory() {
    let home = Path::new("/home/me");
    let at = |named| CertDir::locate(named, Some(home)).unwrap();
    assert_eq!(at(""), Path::new("/home/me/.orchestra/certs"));
    assert_eq!(at("~/x"), Path::new("/home/me/x"));
    assert_eq!(at("~"), home);
    assert_eq!(at("~x"), Path::new("~x"));
    assert_eq!(CertDir::locate("/x", None).unwrap(), Path::new("/x"));
    assert!(matches!(CertDir::locate("", None), Err(CertError::NoHome)));
}

fn text(dir: &CertDir, file: &str) -> String {
    fs::read_to_string(dir.path().join(file)).unwrap()
}

fn openssl(dir: &CertDir, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("openssl")
        .current_dir(dir.path())
        .args(arguments)
        .output()
    else {
        crate::skip::skip("there is no openssl to check the certificates");
        return None;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn files_have_their_layout_and_modes() {
    let (_home, dir) = with_ca();
    dir.identity(&name("tools.demo"), SystemTime::now())
        .unwrap();
    let mode = |file: &str| {
        fs::metadata(dir.path().join(file))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(""), 0o700);
    for file in [
        "ca.crt",
        "ca.key",
        "tools.demo.crt",
        "tools.demo.key",
        ".lock",
    ] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    for file in ["ca.key", "tools.demo.key"] {
        let block = pem::parse(text(&dir, file)).unwrap();
        assert_eq!(block.tag(), "PRIVATE KEY");
        assert_eq!(block.contents().len(), 48);
        assert!(text(&dir, file).starts_with("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI"));
    }
    let mut left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            ".lock",
            "ca.crt",
            "ca.key",
            "tools.demo.crt",
            "tools.demo.key"
        ]
    );
}

#[test]
fn openssl_reads_what_we_write() {
    let (_home, dir) = with_ca();
    dir.identity(&name("tools.demo"), SystemTime::now())
        .unwrap();
    let Some(ca) = openssl(&dir, &["x509", "-in", "ca.crt", "-noout", "-text"]) else {
        return;
    };
    for expected in [
        "O = Orchestra, CN = Orchestra CA",
        "CA:TRUE, pathlen:1",
        "Certificate Sign, CRL Sign",
        "ED25519",
    ] {
        assert!(
            ca.contains(expected) || ca.contains(&expected.replace(" = ", "=")),
            "{expected}\n{ca}"
        );
    }
    let leaf = openssl(&dir, &["x509", "-in", "tools.demo.crt", "-noout", "-text"]).unwrap();
    for expected in [
        "O = Orchestra, CN = tools.demo",
        "Digital Signature",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "DNS:tools.demo, DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1",
    ] {
        assert!(
            leaf.contains(expected) || leaf.contains(&expected.replace(" = ", "=")),
            "{expected}\n{leaf}"
        );
    }
    assert!(!leaf.contains("Basic Constraints"));
    openssl(&dir, &["verify", "-CAfile", "ca.crt", "tools.demo.crt"]).unwrap();
    openssl(&dir, &["pkey", "-in", "tools.demo.key", "-noout"]).unwrap();
}

#[test]
fn a_leaf_is_kept_and_renewed_before_it_ends() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    let first = dir.identity(&name("a"), now).unwrap();
    assert!(first.not_after() > now + VALIDITY - DAY);
    let again = dir.identity(&name("a"), now + 200 * DAY).unwrap();
    assert_eq!(first.chain(), again.chain());
    // Near its end the authority is rotated, and the leaf with it.
    let late = now + 340 * DAY;
    dir.ensure_ca(late).unwrap();
    let renewed = dir.identity(&name("a"), late).unwrap();
    assert_ne!(first.chain()[0], renewed.chain()[0]);
    assert!(renewed.not_after() > late + 300 * DAY);
    // The old one is trusted until it ends, and no longer.
    assert_eq!(renewed.anchors().len(), 2);
    assert_eq!(renewed.chain().len(), 2);
    let after = dir.identity(&name("a"), now + 370 * DAY).unwrap();
    assert_eq!(after.anchors().len(), 1);
    assert_eq!(after.chain().len(), 1);
}

#[test]
fn two_programs_in_an_empty_directory_get_one_authority() {
    let (_home, dir) = empty();
    let starts: Vec<_> = (0..8)
        .map(|number| {
            let dir = dir.clone();
            thread::spawn(move || {
                let now = SystemTime::now();
                dir.ensure_ca(now).unwrap();
                dir.identity(&name(&format!("p{number}")), now)
                    .unwrap()
                    .anchors()
                    .to_vec()
            })
        })
        .collect();
    let anchors: Vec<_> = starts
        .into_iter()
        .map(|start| start.join().unwrap())
        .collect();
    assert!(
        anchors
            .iter()
            .all(|anchor| anchor == &anchors[0] && anchor.len() == 1)
    );
}

#[test]
fn a_leaf_of_another_authority_is_replaced() {
    let (_home, dir) = with_ca();
    let (_other_home, other) = with_ca();
    let now = SystemTime::now();
    let foreign = other.identity(&name("a"), now).unwrap();
    for file in ["a.crt", "a.key"] {
        fs::copy(other.path().join(file), dir.path().join(file)).unwrap();
    }
    assert_ne!(
        dir.identity(&name("a"), now).unwrap().chain(),
        foreign.chain()
    );
}

#[test]
fn rotation_signs_anew_and_trusts_both() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    let before = dir.identity(&name("a"), now).unwrap();
    dir.rotate(now).unwrap();
    let after = dir.identity(&name("a"), now).unwrap();
    assert_ne!(before.chain()[0], after.chain()[0]);
    assert!(after.anchors().contains(&before.anchors()[0]));
    let listed = dir.list(now).unwrap();
    let signer = |file: &str| {
        listed
            .iter()
            .find(|cert| cert.name == file)
            .unwrap()
            .signed_by
            .clone()
    };
    assert_eq!(signer("a").as_deref(), Some("ca"));
    assert_eq!(signer("ca").as_deref(), Some("ca"));
    assert_eq!(signer("ca-cross").as_deref(), Some("ca-previous"));
    // A program that knows only the old authority believes the new leaf by the cross certificate.
    openssl(
        &dir,
        &[
            "verify",
            "-CAfile",
            "ca-previous.crt",
            "-untrusted",
            "ca-cross.crt",
            "a.crt",
        ],
    );
}

#[test]
fn every_authority_that_is_still_valid_stays_trusted() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    let first = dir.identity(&name("a"), now).unwrap();
    dir.rotate(now + DAY).unwrap();
    let second = dir.identity(&name("a"), now + DAY).unwrap();
    dir.rotate(now + 2 * DAY).unwrap();
    let third = dir.identity(&name("a"), now + 2 * DAY).unwrap();
    for earlier in [&first, &second] {
        assert!(third.anchors().contains(&earlier.anchors()[0]));
    }
    assert_eq!(third.anchors().len(), 3);
    // Each is shown, and known by what it signed.
    let listed = dir.list(now + 2 * DAY).unwrap();
    let previous = listed.iter().filter(|cert| cert.name == "ca-previous");
    assert!(previous.clone().all(|cert| cert.valid));
    assert_eq!(previous.count(), 2);
    // They go one by one as they end.
    let of = |days: u32| dir.identity(&name("a"), now + days * DAY).unwrap();
    assert_eq!(of(364).anchors().len(), 3);
    assert_eq!(of(365).anchors().len(), 2);
    assert_eq!(of(366).anchors().len(), 1);
    // Whoever rotates for ever is believed, and the files stay small.
    for _ in 0..40 {
        dir.rotate(now).unwrap();
    }
    assert_eq!(dir.identity(&name("a"), now).unwrap().anchors().len(), 17);
}

#[test]
fn what_was_handed_out_is_replaced_after_any_number_of_rotations() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    let id: PluginId = "tools.demo".parse().unwrap();
    let names = [id.server_name(), id.client_name()];
    let issue = || names.iter().for_each(|name| drop(dir.issue(name, now)));
    let hand_out = |to: &CertDir| dir.hand_out(&names, to);
    issue();
    let plugin = CertDir::open(dir.of_plugin(&id)).unwrap();
    let (_other_home, elsewhere) = empty();
    for to in [&plugin, &elsewhere] {
        assert!(hand_out(to).unwrap());
        assert!(!hand_out(to).unwrap(), "nothing is written without need");
    }
    for _ in 0..2 {
        dir.rotate(now).unwrap();
    }
    issue();
    for to in [&plugin, &elsewhere] {
        assert!(hand_out(to).unwrap());
        assert_eq!(text(to, "ca.crt"), text(&dir, "ca.crt"));
        assert_eq!(to.identity(&names[0], now).unwrap().anchors().len(), 3);
    }
    // The directory of a plugin is ours even when nothing is known of what it holds.
    let (_third_home, other) = with_ca();
    fs::copy(other.path().join("ca.crt"), plugin.path().join("ca.crt")).unwrap();
    assert!(hand_out(&plugin).unwrap());
    fs::write(plugin.path().join("ca.crt"), "garbage").unwrap();
    assert!(hand_out(&plugin).unwrap());
    assert_eq!(text(&plugin, "ca.crt"), text(&dir, "ca.crt"));
    // But for one in which somebody signs.
    fs::copy(other.path().join("ca.key"), plugin.path().join("ca.key")).unwrap();
    assert!(matches!(hand_out(&plugin), Err(CertError::Taken { .. })));
}

#[test]
fn an_authority_whose_key_leaked_is_trusted_no_more_at_once() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    let id: PluginId = "tools.demo".parse().unwrap();
    let names = [id.server_name()];
    let old = dir.issue(&names[0], now).unwrap();
    dir.rotate(now).unwrap();
    let leaked = dir.issue(&names[0], now).unwrap();
    let plugin = CertDir::open(dir.of_plugin(&id)).unwrap();
    dir.hand_out(&names, &plugin).unwrap();
    dir.rotate_at_once(now).unwrap();
    let new = dir.identity(&names[0], now).unwrap();
    assert_eq!(new.anchors().len(), 1);
    assert_eq!(new.chain().len(), 1);
    for before in [&old, &leaked] {
        assert!(!new.anchors().contains(&before.anchors()[0]));
        assert_ne!(new.chain()[0], before.chain()[0]);
    }
    // Nor does it come back by what is handed out, or by the next rotation.
    dir.hand_out(&names, &plugin).unwrap();
    assert_eq!(plugin.identity(&names[0], now).unwrap().anchors().len(), 1);
    assert!(!plugin.path().join("ca-previous.crt").exists());
    dir.rotate(now).unwrap();
    let next = dir.identity(&names[0], now).unwrap();
    assert_eq!(next.anchors().len(), 2);
    assert!(next.anchors().contains(&new.anchors()[0]));
    // Where the key is not, nothing is lost.
    fs::remove_file(dir.path().join("ca.key")).unwrap();
    assert!(matches!(
        dir.rotate_at_once(now),
        Err(CertError::CannotRotate { .. })
    ));
    assert!(dir.path().join("ca-previous.crt").exists());
}

#[test]
fn nobody_has_the_names_of_the_authority_in_any_case() {
    let (_home, dir) = with_ca();
    let (_other_home, to) = empty();
    let now = SystemTime::now();
    for taken in ["ca", "CA", "Ca", "ca-Next", "CA-PREVIOUS", "ca-CROSS"] {
        let name = name(taken);
        let refused = [
            dir.issue(&name, now).map(drop),
            dir.identity(&name, now).map(drop),
            dir.hand_out(std::slice::from_ref(&name), &to).map(drop),
        ];
        for refused in refused {
            let told = refused.unwrap_err().to_string();
            let is_told = told.contains("a name of the authority's files");
            assert!(is_told || taken == "ca", "{taken}: {told}");
        }
    }
    assert!(!to.path().join("ca.key").exists());
    dir.issue(&name("cable"), now).unwrap();
}

#[test]
fn an_authority_without_a_usable_key_is_never_overwritten() {
    let now = SystemTime::now();
    let breakings: [fn(&CertDir); 4] = [
        |dir| fs::remove_file(dir.path().join("ca.key")).unwrap(),
        |dir| fs::write(dir.path().join("ca.key"), "no key").unwrap(),
        |dir| {
            // What cannot be read even by root.
            fs::remove_file(dir.path().join("ca.key")).unwrap();
            fs::create_dir(dir.path().join("ca.key")).unwrap();
        },
        |dir| {
            let (_home, other) = with_ca();
            fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
        },
    ];
    for breaking in breakings {
        let (_home, dir) = with_ca();
        let kept = dir.identity(&name("kept"), now).unwrap();
        let authority = text(&dir, "ca.crt");
        breaking(&dir);
        dir.ensure_ca(now + 350 * DAY).unwrap();
        let again = dir.identity(&name("kept"), now).unwrap();
        assert_eq!(again.chain(), kept.chain());
        // Short of its end it is still better than none.
        dir.identity(&name("kept"), now + 350 * DAY).unwrap();
        let error = dir.identity(&name("other"), now).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("Run `orchestra certs issue other`"),
            "{error}"
        );
        assert!(matches!(
            dir.issue(&name("kept"), now),
            Err(CertError::CannotSign { .. })
        ));
        assert!(matches!(
            dir.rotate(now),
            Err(CertError::CannotRotate { .. })
        ));
        assert_eq!(text(&dir, "ca.crt"), authority);
    }
}

#[test]
fn a_directory_may_hold_a_leaf_alone() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    dir.identity(&name("a-client"), now).unwrap();
    let home = TempDir::new().unwrap();
    let own = CertDir::open(home.path().join("own")).unwrap();
    for file in ["ca.crt", "a-client.crt", "a-client.key"] {
        fs::copy(dir.path().join(file), own.path().join(file)).unwrap();
    }
    own.identity(&name("a-client"), now).unwrap();
    let over = own
        .identity(&name("a-client"), now + 366 * DAY)
        .unwrap_err();
    assert!(
        over.to_string().contains("orchestra certs issue a-client"),
        "{over}"
    );
}

#[test]
fn what_is_handed_out_cannot_sign_and_takes_no_place_of_another_authority() {
    let now = SystemTime::now();
    let (_home, dir) = with_ca();
    let names = [name("tools.demo"), name("tools.demo-client")];
    for name in &names {
        dir.issue(name, now).unwrap();
    }
    let (_other_home, to) = empty();
    dir.hand_out(&names, &to).unwrap();
    let mut there: Vec<String> = fs::read_dir(to.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    there.sort();
    assert_eq!(
        there,
        [
            "ca.crt",
            "tools.demo-client.crt",
            "tools.demo-client.key",
            "tools.demo.crt",
            "tools.demo.key"
        ]
    );
    for file in &there {
        let mode = fs::metadata(to.path().join(file)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{file}");
    }
    to.identity(&names[0], now).unwrap();
    assert!(to.issue(&names[0], now).is_err());
    // After a rotation the same place takes the new authority, and the one before with it.
    dir.rotate(now).unwrap();
    dir.issue(&names[0], now).unwrap();
    dir.hand_out(&names, &to).unwrap();
    assert_eq!(to.identity(&names[0], now).unwrap().anchors().len(), 2);
    let (_third_home, another) = with_ca();
    for taken in [&another, &dir] {
        let error = dir.hand_out(&names, taken).unwrap_err();
        assert!(matches!(error, CertError::Taken { .. }), "{error}");
    }
    fs::remove_file(another.path().join("ca.key")).unwrap();
    let error = dir.hand_out(&names, &another).unwrap_err();
    assert!(matches!(error, CertError::Taken { .. }), "{error}");
    let missing = dir.hand_out(&[name("nobody")], &to).unwrap_err();
    assert!(missing.to_string().contains("there is no such file"));
}

#[test]
fn a_pair_that_is_being_written_is_read_when_it_is_whole() {
    let now = SystemTime::now();
    let (_home, dir) = with_ca();
    dir.issue(&name("a"), now).unwrap();
    let (_other_home, to) = empty();
    dir.hand_out(&[name("a")], &to).unwrap();
    dir.issue(&name("a"), now).unwrap();
    // Somebody is between the two files.
    let lock = fs::File::open(to.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    let put = |file: &str| {
        let new = fs::read(dir.path().join(file)).unwrap();
        fs::write(to.path().join(file), new).unwrap();
    };
    put("a.key");
    let (sender, found) = std::sync::mpsc::channel();
    let reader = to.clone();
    let reading = thread::spawn(move || sender.send(reader.identity(&name("a"), now)));
    let early = found.recv_timeout(Duration::from_millis(100));
    assert!(early.is_err(), "{early:?}");
    put("a.crt");
    drop(lock);
    let identity = found.recv().unwrap().unwrap();
    let whole = dir.identity(&name("a"), now).unwrap();
    assert_eq!(identity.chain(), whole.chain());
    reading.join().unwrap().unwrap();
}

#[test]
fn old_keys_and_leaves_are_read() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    dir.identity(&name("old"), now).unwrap();
    // A key in version 2, as some libraries write it.
    let v1 = pem::parse(text(&dir, "ca.key")).unwrap().into_contents();
    let v1 = rustls_pki_types::PrivatePkcs8KeyDer::from(v1);
    let pair = rcgen::KeyPair::try_from(&v1).unwrap();
    let mut v2 = vec![0x30, 81, 2, 1, 1];
    v2.extend(&v1.secret_pkcs8_der()[5..]);
    v2.extend([0x81, 0x21, 0x00]);
    v2.extend(pair.public_key_raw());
    fs::write(
        dir.path().join("ca.key"),
        pem::encode(&pem::Pem::new("PRIVATE KEY", v2)),
    )
    .unwrap();
    dir.issue(&name("new"), now).unwrap();
    // A P-256 leaf without extended key usage, valid for ever.
    let ca = pem::parse(text(&dir, "ca.crt")).unwrap().into_contents();
    let issuer = rcgen::Issuer::from_ca_cert_der(&ca.into(), pair).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["engine.rag".to_owned()]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "engine.rag");
    let leaf = params.signed_by(&key, &issuer).unwrap();
    fs::write(dir.path().join("engine.rag.crt"), leaf.pem()).unwrap();
    fs::write(dir.path().join("engine.rag.key"), key.serialize_pem()).unwrap();
    let identity = dir.identity(&name("engine.rag"), now).unwrap();
    assert_eq!(&identity.chain()[0], leaf.der());
}

#[test]
fn an_authority_may_sign_with_p256() {
    let (_home, dir) = empty();
    let now = SystemTime::now();
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(dir.path().join("ca.key"), key.serialize_pem()).unwrap();
    dir.ensure_ca(now).unwrap();
    let leaf = dir.identity(&name("a"), now).unwrap();
    // It is believed, for otherwise there would be another.
    let again = dir.identity(&name("a"), now).unwrap();
    assert_eq!(again.chain(), leaf.chain());
    openssl(&dir, &["verify", "-CAfile", "ca.crt", "a.crt"]);
    openssl(&dir, &["verify", "-CAfile", "ca.crt", "ca.crt"]);
    dir.rotate(now).unwrap();
    dir.identity(&name("a"), now).unwrap();
    let chain = ["-untrusted", "ca-cross.crt", "a.crt"];
    openssl(
        &dir,
        &[&["verify", "-CAfile", "ca-previous.crt"], &chain[..]].concat(),
    );
}

#[test]
fn nothing_is_written_through_links_or_into_open_directories() {
    let (home, dir) = with_ca();
    let now = SystemTime::now();
    let outside = home.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    symlink(&outside, dir.path().join("a.key")).unwrap();
    assert!(matches!(
        dir.identity(&name("a"), now),
        Err(CertError::File { .. })
    ));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    fs::remove_file(dir.path().join(".lock")).unwrap();
    symlink(&outside, dir.path().join(".lock")).unwrap();
    assert!(matches!(
        dir.issue(&name("b"), now),
        Err(CertError::File { .. })
    ));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(
        CertDir::open(dir.path()),
        Err(CertError::Exposed { .. })
    ));
}

#[test]
fn an_installation_that_was_cut_off_is_finished() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    let old = text(&dir, "ca.crt");
    let (_other_home, other) = with_ca();
    // As if the program had died between the key and the certificate.
    fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
    fs::copy(other.path().join("ca.crt"), dir.path().join("ca-next.crt")).unwrap();
    dir.issue(&name("a"), now).unwrap();
    assert_eq!(text(&dir, "ca.crt"), text(&other, "ca.crt"));
    assert_ne!(text(&dir, "ca.crt"), old);
    // Whoever comes next does that, whatever it is that it asks for.
    let comings: [fn(&CertDir); 2] = [
        |dir| dir.ensure_ca(SystemTime::now()).unwrap(),
        |dir| drop(dir.identity(&name("a"), SystemTime::now()).unwrap()),
    ];
    for comes in comings {
        let (_home, dir) = with_ca();
        let before = dir.identity(&name("a"), now).unwrap();
        fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
        fs::copy(other.path().join("ca.crt"), dir.path().join("ca-next.crt")).unwrap();
        comes(&dir);
        assert_eq!(text(&dir, "ca.crt"), text(&other, "ca.crt"));
        assert!(!dir.path().join("ca-next.crt").exists());
        let after = dir.identity(&name("a"), now).unwrap();
        assert_ne!(after.chain()[0], before.chain()[0]);
    }
    // And as if it had died before the key: the old authority goes on.
    let (_home, dir) = with_ca();
    let old = text(&dir, "ca.crt");
    fs::copy(other.path().join("ca.crt"), dir.path().join("ca-next.crt")).unwrap();
    dir.issue(&name("a"), now).unwrap();
    assert_eq!(text(&dir, "ca.crt"), old);
}

#[test]
fn a_rotation_that_fails_leaves_what_was_tied() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    for _ in 0..3 {
        dir.rotate(now).unwrap();
    }
    let before = dir.identity(&name("a"), now).unwrap();
    assert_eq!(before.chain().len(), 3);
    // There is no room for the new one, again and again.
    let next = dir.path().join("ca-next.crt");
    fs::create_dir(&next).unwrap();
    for _ in 0..3 {
        assert!(dir.rotate(now).is_err());
        let after = dir.identity(&name("a"), now).unwrap();
        assert!(after.is_same_as(&before), "{after:?}");
    }
    fs::remove_dir(&next).unwrap();
    dir.rotate(now).unwrap();
    let after = dir.identity(&name("a"), now).unwrap();
    assert_eq!((after.chain().len(), after.anchors().len()), (3, 5));
}

#[test]
fn oversize_and_garbage_files_are_errors() {
    let (_home, dir) = with_ca();
    let now = SystemTime::now();
    fs::write(dir.path().join("ca.crt"), vec![b'x'; 70_000]).unwrap();
    assert!(matches!(dir.ensure_ca(now), Err(CertError::Large { .. })));
    fs::write(dir.path().join("ca.crt"), "garbage").unwrap();
    assert!(matches!(dir.ensure_ca(now), Err(CertError::Content { .. })));
    assert_eq!(text(&dir, "ca.crt"), "garbage");
}

#[test]
fn nothing_shows_a_key() {
    let (_home, dir) = with_ca();
    let identity = dir.identity(&name("a"), SystemTime::now()).unwrap();
    let shown = format!("{identity:?}");
    assert!(!shown.contains("key"), "{shown}");
}
