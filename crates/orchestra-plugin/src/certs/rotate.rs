//! The authority: the first one, how another takes its place, and which ones before it still count.

use std::time::SystemTime;

use super::{
    dir::{Authority, CROSS, CertDir, NEXT, PREVIOUS},
    error::CertError,
    files::Lock,
    key::Key,
    make,
    parse::Cert,
};

/// As many authorities before the present one are trusted: of a thousand rotations in a year the
/// files stay small.
const MAX_PREVIOUS: usize = 16;

/// As many authorities are tied to the one before them: verifiers go no further, because an authority
/// of ours may have one other below it. The file has one more, in case that a rotation fails.
const MAX_CROSSES: usize = 2;

impl CertDir {
    /// Puts a new authority in the place of the present one, which stays trusted until it ends, as do
    /// those before it.
    ///
    /// # Errors
    /// [`CertError::CannotRotate`] if the present key is not here; the others are about files.
    pub fn rotate(&self, now: SystemTime) -> Result<(), CertError> {
        let lock = self.files.lock()?;
        self.finish_next(&lock)?;
        match self.authority()? {
            None => self.first_authority(&lock, now),
            Some(ca) => self.replace_authority(&lock, &ca, now),
        }
    }

    /// Puts a new authority in the place of the present one and trusts no other from now on: for a
    /// key that somebody else may have.
    ///
    /// Programs that read the directory before believe nothing of the new one until they read it
    /// again. They then close the connections of peers whose certificates are not of the new authority.
    ///
    /// # Errors
    /// [`CertError::CannotRotate`] if the present key is not here; the others are about files.
    pub fn rotate_at_once(&self, now: SystemTime) -> Result<(), CertError> {
        let lock = self.files.lock()?;
        self.finish_next(&lock)?;
        if let Some(ca) = self.authority()? {
            self.rotatable(&ca)?;
        }
        for name in [PREVIOUS, CROSS] {
            self.files.remove(&lock, &format!("{name}.crt"))?;
        }
        let key = Key::generate()?;
        self.install(&lock, &make::authority(&key, now)?, &key)
    }

    /// Makes the first authority, of the key that is there if there is one.
    pub(super) fn first_authority(&self, lock: &Lock, now: SystemTime) -> Result<(), CertError> {
        let key = match self.files.read("ca.key")? {
            Some(text) => Key::from_pem(&text, &self.files.at("ca.key"))?,
            None => Key::generate()?,
        };
        let cert = make::authority(&key, now)?;
        self.install(lock, &cert, &key)
    }

    pub(super) fn replace_authority(
        &self,
        lock: &Lock,
        old: &Authority,
        now: SystemTime,
    ) -> Result<(), CertError> {
        let old_key = self.rotatable(old)?;
        let key = Key::generate()?;
        let cert = make::authority(&key, now)?;
        let mut previous = self.previous(old, now)?;
        let mut crosses = Vec::new();
        if old.cert.is_valid_at(now) {
            // Those of the present one stay behind, for it goes on if the new one does not come.
            crosses.push(make::cross(&key, &old.cert, old_key, now)?);
            crosses.extend(self.crosses(&old.cert, now)?);
            previous.insert(0, old.cert.clone());
        }
        if previous.len() > MAX_PREVIOUS {
            tracing::warn!(
                most = MAX_PREVIOUS,
                "the oldest certificate authority is no longer trusted"
            );
            previous.truncate(MAX_PREVIOUS);
        }
        for (name, certs) in [(PREVIOUS, previous), (CROSS, crosses)] {
            let file = format!("{name}.crt");
            let text: String = certs.iter().map(|cert| make::to_pem(cert.der())).collect();
            match text.is_empty() {
                true => self.files.remove(lock, &file)?,
                false => self.files.write(lock, &file, &text)?,
            }
        }
        self.install(lock, &cert, &key)
    }

    fn rotatable<'a>(&self, ca: &'a Authority) -> Result<&'a Key, CertError> {
        ca.key.as_ref().map_err(|why| CertError::CannotRotate {
            path: self.path().to_owned(),
            why: why.clone(),
        })
    }

    /// Writes certificate and key so that a crash at any point leaves a pair or can be finished:
    /// the certificate waits beside the key until the key is in its place.
    fn install(&self, lock: &Lock, cert: &Cert, key: &Key) -> Result<(), CertError> {
        self.files
            .write(lock, "ca-next.crt", &make::to_pem(cert.der()))?;
        self.files.write(lock, "ca.key", &key.to_pem())?;
        self.files.rename(lock, "ca-next.crt", "ca.crt")?;
        tracing::info!(
            fingerprint = cert.fingerprint(),
            "certificate authority created"
        );
        Ok(())
    }

    /// Whether an installation goes on or was cut off.
    pub(super) fn is_cut_off(&self) -> bool {
        self.files.at("ca-next.crt").is_file()
    }

    /// Finishes an installation whose program died after it had written the key.
    pub(super) fn finish_next(&self, lock: &Lock) -> Result<(), CertError> {
        let (Ok(Some(next)), Ok(Some(key))) = (self.cert(NEXT), self.files.read("ca.key")) else {
            return Ok(());
        };
        match Key::from_pem(&key, &self.files.at("ca.key")) {
            Ok(key) if key.fits(next.public_key()) => {
                self.files.rename(lock, "ca-next.crt", "ca.crt")
            }
            _ => Ok(()),
        }
    }

    /// The authorities before that are still valid, the latest first.
    pub(super) fn previous(&self, ca: &Authority, now: SystemTime) -> Result<Vec<Cert>, CertError> {
        let mut previous = self.certs(PREVIOUS)?;
        previous.retain(|old| old.is_valid_at(now) && old.der() != ca.cert.der());
        previous.truncate(MAX_PREVIOUS);
        Ok(previous)
    }

    /// What ties an authority to those before it: itself signed by the one before, and so on, as far
    /// as each of them is valid. Before that may be what ties one to it that is not in its place yet.
    pub(super) fn crosses(&self, ca: &Cert, now: SystemTime) -> Result<Vec<Cert>, CertError> {
        let tied = self.certs(CROSS)?.into_iter();
        let is_of_it = |cross: &Cert| cross.public_key() == ca.public_key();
        let tied = tied.skip_while(|cross| !is_of_it(cross)).take(MAX_CROSSES);
        Ok(tied.take_while(|cross| cross.is_valid_at(now)).collect())
    }
}
