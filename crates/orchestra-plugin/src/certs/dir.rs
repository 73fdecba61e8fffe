//! The directory of certificates: what it promises, and in which order files are written.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustls_pki_types::CertificateDer;

use super::{
    error::CertError,
    files::{Files, Lock},
    identity::{Identity, Listed},
    key::Key,
    make,
    parse::Cert,
};
use crate::ids::CertName;

/// A leaf that ends sooner than this is renewed by who can.
pub const LEAF_RENEWAL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An authority that ends sooner than this is rotated by who can: early enough that no leaf of it
/// is due for renewal when it goes.
pub const CA_RENEWAL: Duration = Duration::from_secs(60 * 24 * 60 * 60);

pub(super) const CA: &str = "ca";
pub(super) const PREVIOUS: &str = "ca-previous";
pub(super) const CROSS: &str = "ca-cross";
pub(super) const NEXT: &str = "ca-next";

/// Files of the authority, which are nobody's leaf. Some file systems know no case.
const AUTHORITY: [&str; 4] = [CA, PREVIOUS, CROSS, NEXT];

/// A directory of certificates.
#[derive(Debug, Clone)]
pub struct CertDir {
    pub(super) files: Files,
}

/// The authority as the directory has it.
pub(super) struct Authority {
    pub(super) cert: Cert,
    /// Its key, or why it is not at hand.
    pub(super) key: Result<Key, String>,
    /// Whether the key is that of another: somebody is between the two files, or was cut off there.
    is_torn: bool,
}

impl CertDir {
    /// Opens a directory, making it with mode 0700 if it is not there.
    ///
    /// # Errors
    /// It cannot be made or opened, or others may write to it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CertError> {
        Ok(Self {
            files: Files::open(path.as_ref())?,
        })
    }

    /// Where the directory is that a flag or a file names: a leading `~` is the home directory, and
    /// the empty text means `~/.orchestra/certs`.
    ///
    /// # Errors
    /// The home directory is needed and not known.
    pub fn locate(named: &str, home: Option<&Path>) -> Result<PathBuf, CertError> {
        let below = match named {
            "" | "~" | "~/" => Some(named.strip_prefix('~').map_or(".orchestra/certs", |_| "")),
            _ => named.strip_prefix("~/"),
        };
        match below {
            None => Ok(PathBuf::from(named)),
            Some(below) => Ok(home.ok_or(CertError::NoHome)?.join(below)),
        }
    }

    /// Where it is, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Makes sure that there is an authority, and rotates it when it is due and its key is here.
    ///
    /// Two programs that do this at once in an empty directory end up with the same one. A
    /// certificate of an authority that can be read is kept, whatever is wrong with its key. Only a
    /// program that may found an authority asks for this; a plugin asks for its identity alone.
    ///
    /// # Errors
    /// The directory cannot be read or written, or holds an authority that cannot be understood.
    pub fn ensure_ca(&self, now: SystemTime) -> Result<(), CertError> {
        let due = |ca: &Authority| ca.key.is_ok() && ca.cert.not_after() < now + CA_RENEWAL;
        match self.authority()? {
            Some(ca) if ca.is_torn && self.is_cut_off() => {}
            Some(ca) if !due(&ca) => return Ok(()),
            _ => {}
        }
        let lock = self.files.lock()?;
        self.finish_next(&lock)?;
        match self.authority()? {
            None => self.first_authority(&lock, now),
            Some(ca) if due(&ca) => self.replace_authority(&lock, &ca, now),
            Some(_) => Ok(()),
        }
    }

    /// The identity of a name: its leaf if that is good, else a new one if the key to sign it with
    /// is here.
    ///
    /// A leaf is good when it names `name`, is of the present authority and lasts a while longer
    /// ([`LEAF_RENEWAL`]). Where nothing can be signed, any leaf that is valid now will do.
    ///
    /// # Errors
    /// [`CertError::CannotSign`] says which command helps; the others are about files.
    pub fn identity(&self, name: &CertName, now: SystemTime) -> Result<Identity, CertError> {
        let ca = self.authority();
        let is_torn = matches!(&ca, Ok(Some(ca)) if ca.is_torn);
        let mut found = ca.and_then(|ca| self.find(name, ca, now));
        if is_torn || found.is_err() {
            // Somebody may be writing, between two files that belong together.
            found = self.undisturbed(|| self.find(name, self.authority()?, now));
        }
        if let Some(identity) = found? {
            return Ok(identity);
        }
        self.check_leaf_name(name)?;
        let lock = self.files.lock()?;
        self.finish_next(&lock)?;
        // Somebody else may have been faster.
        match self.find(name, self.authority()?, now)? {
            Some(identity) => Ok(identity),
            None => self.make_leaf(&lock, name, now),
        }
    }

    /// Makes a new leaf for a name, in the place of one that is there.
    ///
    /// # Errors
    /// [`CertError::CannotSign`] if the authority's key is not here; the others are about files.
    pub fn issue(&self, name: &CertName, now: SystemTime) -> Result<Identity, CertError> {
        self.check_leaf_name(name)?;
        let lock = self.files.lock()?;
        self.finish_next(&lock)?;
        self.make_leaf(&lock, name, now)
    }

    /// The identity of a name as the directory has it; `None` where it is to be signed anew and can be.
    fn find(
        &self,
        name: &CertName,
        ca: Option<Authority>,
        now: SystemTime,
    ) -> Result<Option<Identity>, CertError> {
        let ca = ca.ok_or_else(|| self.no_authority(name))?;
        let previous = self.previous(&ca, now)?;
        let stored = self.leaf(name);
        if let Ok(Some((leaf, key))) = &stored {
            let lasting = leaf.is_valid_at(now) && leaf.not_after() >= now + LEAF_RENEWAL;
            let good = leaf.names(name) && leaf.is_signed_by(&ca.cert, now);
            if good && (lasting || !is_renewable(&ca, leaf)) && ca.cert.is_valid_at(now) {
                let identity = self.assemble(name, leaf, key, &ca, previous, now)?;
                return Ok(Some(identity));
            }
        }
        let why = match &ca.key {
            Ok(_) if ca.cert.is_valid_at(now) => return Ok(None),
            Ok(_) => return Err(self.expired()),
            Err(why) => why,
        };
        if let Some((leaf, key)) = stored? {
            let believes = |ca: &Cert| leaf.is_signed_by(ca, now);
            let believed = believes(&ca.cert) || previous.iter().any(believes);
            if leaf.names(name) && believed {
                let identity = self.assemble(name, &leaf, &key, &ca, previous, now)?;
                return Ok(Some(identity));
            }
        }
        Err(self.cannot_sign(name, why))
    }

    fn make_leaf(
        &self,
        lock: &Lock,
        name: &CertName,
        now: SystemTime,
    ) -> Result<Identity, CertError> {
        let ca = self.authority()?.ok_or_else(|| self.no_authority(name))?;
        let ca_key = ca.key.as_ref().map_err(|why| self.cannot_sign(name, why))?;
        if !ca.cert.is_valid_at(now) {
            return Err(self.expired());
        }
        let key = Key::generate()?;
        let leaf = make::leaf(name, &key, &ca.cert, ca_key, now)?;
        // A reader between the two writes sees a pair that does not fit, and waits for the lock.
        self.files
            .write(lock, &format!("{name}.key"), &key.to_pem())?;
        self.files
            .write(lock, &format!("{name}.crt"), &make::to_pem(leaf.der()))?;
        tracing::info!(%name, fingerprint = leaf.fingerprint(), "certificate issued");
        let previous = self.previous(&ca, now)?;
        self.assemble(name, &leaf, &key, &ca, previous, now)
    }

    /// Reads while nobody writes, what was cut off being finished first by who may.
    fn undisturbed<T>(&self, read: impl FnOnce() -> Result<T, CertError>) -> Result<T, CertError> {
        if self.is_cut_off() {
            match self.files.lock() {
                Ok(lock) => {
                    self.finish_next(&lock)?;
                    return read();
                }
                Err(CertError::File { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let _reading = match self.files.reading() {
            // Who may not even know of writers reads as well as can be.
            Err(CertError::File { .. }) => None,
            reading => Some(reading?),
        };
        read()
    }

    /// Every certificate of the directory, by name: of the authorities before, each of its file. A
    /// file that is none is passed over.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self, now: SystemTime) -> Result<Vec<Listed>, CertError> {
        let names = self.files.certificates()?;
        let read = |name: &str| match name {
            PREVIOUS | CROSS => self.certs(name).unwrap_or_default(),
            name => Vec::from_iter(self.cert(name).ok().flatten()),
        };
        let anchors: Vec<(&str, Cert)> = [CA, PREVIOUS]
            .into_iter()
            .flat_map(|name| read(name).into_iter().map(move |cert| (name, cert)))
            .collect();
        let listed = |name: String, cert: Cert| {
            let signer = anchors.iter().find(|(_, ca)| cert.bears_signature_of(ca));
            Listed {
                subject: cert.subject().to_owned(),
                fingerprint: cert.fingerprint(),
                not_after: cert.not_after(),
                valid: cert.is_valid_at(now),
                signed_by: signer.map(|(anchor, _)| (*anchor).to_owned()),
                has_key: self.files.at(&format!("{name}.key")).is_file(),
                exposed: self.files.is_exposed(&format!("{name}.key")),
                name,
            }
        };
        let all = names.into_iter().flat_map(|name| {
            let certs = read(&name);
            certs.into_iter().map(move |cert| (name.clone(), cert))
        });
        Ok(all.map(|(name, cert)| listed(name, cert)).collect())
    }

    /// Why nothing can be signed here, although there is an authority; `None` if it can, or there is
    /// none.
    ///
    /// # Errors
    /// The directory cannot be read, or its authority cannot be understood.
    pub fn why_unsigned(&self) -> Result<Option<String>, CertError> {
        let ca = self.undisturbed(|| self.authority())?;
        Ok(ca.and_then(|ca| ca.key.err()))
    }

    pub(super) fn authority(&self) -> Result<Option<Authority>, CertError> {
        let Some(cert) = self.cert(CA)? else {
            return Ok(None);
        };
        let key = self.key(CA);
        let is_torn = matches!(&key, Ok(Some(key)) if !key.fits(cert.public_key()));
        let key = match key {
            Ok(Some(key)) if !is_torn => Ok(key),
            Ok(Some(_)) => Err("ca.key does not belong to ca.crt".to_owned()),
            Ok(None) => Err("there is no ca.key to sign it with".to_owned()),
            Err(CertError::File { source, .. }) => Err(format!("ca.key cannot be read ({source})")),
            Err(error) => Err(format!("ca.key is of no use ({error})")),
        };
        Ok(Some(Authority { cert, key, is_torn }))
    }

    fn leaf(&self, name: &CertName) -> Result<Option<(Cert, Key)>, CertError> {
        let pair = (self.cert(name.as_str())?, self.key(name.as_str())?);
        let (Some(cert), Some(key)) = pair else {
            return Ok(None);
        };
        Ok(key.fits(cert.public_key()).then_some((cert, key)))
    }

    fn assemble(
        &self,
        name: &CertName,
        leaf: &Cert,
        key: &Key,
        ca: &Authority,
        previous: Vec<Cert>,
        now: SystemTime,
    ) -> Result<Identity, CertError> {
        let mut chain = vec![leaf.der().clone()];
        if leaf.is_signed_by(&ca.cert, now) {
            let crosses = self.crosses(&ca.cert, now)?;
            chain.extend(crosses.iter().map(|cross| cross.der().clone()));
        }
        let present = Some(ca.cert.clone()).filter(|ca| ca.is_valid_at(now));
        let anchors: Vec<CertificateDer<'static>> = present
            .into_iter()
            .chain(previous)
            .map(|ca| ca.der().clone())
            .collect();
        if anchors.is_empty() {
            return Err(self.expired());
        }
        Ok(Identity {
            name: name.clone(),
            chain,
            key: key.pkcs8(),
            anchors,
            not_after: leaf.not_after(),
        })
    }

    pub(super) fn cert(&self, name: &str) -> Result<Option<Cert>, CertError> {
        let file = format!("{name}.crt");
        let Some(text) = self.files.read(&file)? else {
            return Ok(None);
        };
        Cert::from_pem(&text, &self.files.at(&file)).map(Some)
    }

    /// Every certificate of a file; none if it is not there.
    pub(super) fn certs(&self, name: &str) -> Result<Vec<Cert>, CertError> {
        let file = format!("{name}.crt");
        match self.files.read(&file)? {
            None => Ok(Vec::new()),
            Some(text) => Cert::all_from_pem(&text, &self.files.at(&file)),
        }
    }

    fn key(&self, name: &str) -> Result<Option<Key>, CertError> {
        let file = format!("{name}.key");
        let Some(text) = self.files.read(&file)? else {
            return Ok(None);
        };
        if self.files.is_exposed(&file) {
            tracing::warn!(path = %self.files.at(&file).display(), "other users can read this private key; run chmod 600 on it");
        }
        Key::from_pem(&text, &self.files.at(&file)).map(Some)
    }

    /// Refuses a name whose files would be those of the authority.
    pub(super) fn check_leaf_name(&self, name: &CertName) -> Result<(), CertError> {
        let is_its = |file: &&str| file.eq_ignore_ascii_case(name.as_str());
        match AUTHORITY.iter().any(is_its) {
            true => Err(self.cannot_sign(name, "that is a name of the authority's files")),
            false => Ok(()),
        }
    }

    fn expired(&self) -> CertError {
        CertError::Expired {
            path: self.path().to_owned(),
        }
    }

    fn no_authority(&self, name: &CertName) -> CertError {
        CertError::NoAuthority {
            name: name.clone(),
            path: self.path().to_owned(),
        }
    }

    fn cannot_sign(&self, name: &CertName, why: &str) -> CertError {
        CertError::CannotSign {
            name: name.clone(),
            path: self.path().to_owned(),
            why: why.to_owned(),
        }
    }
}

/// Whether a new leaf would last longer than this one.
fn is_renewable(ca: &Authority, leaf: &Cert) -> bool {
    ca.key.is_ok() && leaf.not_after() < ca.cert.not_after()
}
