//! Whose tokens are trusted, as flags and the user's configuration file say.

use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use orchestra_mcp::http::{
    HostName, KeysUrl, OAuthNameError, OAuthRules, Scope, ServiceUrl, TrustedIssuer,
};
use serde::Deserialize;

use super::{
    Entry, Origin, Setting,
    access::{list, some},
    file::{ConfigFile, ParseError, names, parsed, within},
    flag, settle,
};
use crate::exit::Failure;

/// How far the clock of an issuer may differ from ours, in seconds: clocks that are set by the
/// network differ by less than one.
const LEEWAY_SECONDS: RangeInclusive<u64> = 0..=600;

/// More than clocks differ, and little for tokens that last minutes.
const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);

/// What names this server.
const RESOURCE: &str = "a URL such as https://box.example:7420/mcp, or http:// on this machine, \
    without a query or fragment";

/// Text that names no resource.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("expected {RESOURCE}")]
struct ResourceError;

fn parse_resource(text: &str) -> Result<ServiceUrl, ResourceError> {
    text.parse().map_err(|_: OAuthNameError| ResourceError)
}

/// OAuth issuers and their tokens
#[derive(Debug, Default, Args)]
pub(crate) struct OAuthFlags {
    /// OAuth issuer whose access tokens are accepted, such as `https://login.example/main`; may be repeated
    #[arg(long = "oauth-issuer", value_name = "URL")]
    issuers: Vec<ServiceUrl>,
    /// URL under which clients reach MCP, such as `https://box.example:7420/mcp`. It must be the audience of their
    /// access tokens
    #[arg(long = "oauth-resource", value_name = "URL", value_parser = parse_resource)]
    resource: Option<ServiceUrl>,
    /// Additional audience that is accepted in access tokens; may be repeated
    #[arg(long = "oauth-audience", value_name = "NAME")]
    audiences: Vec<String>,
    /// Scope that access tokens must have; may be repeated
    #[arg(long = "oauth-scope", value_name = "SCOPE")]
    scopes: Vec<Scope>,
    /// URL of the issuer's public keys (JWKS), if the issuer's metadata does not name it
    #[arg(long = "oauth-jwks", value_name = "URL")]
    jwks_url: Option<KeysUrl>,
}

/// Whose tokens are trusted.
#[derive(Debug, Clone)]
pub(crate) struct OAuthConfig {
    /// Who gives them out.
    issuers: Setting<Vec<ServiceUrl>>,
    /// Whom they are for.
    resource: Setting<Option<ServiceUrl>>,
    /// What else that may be called.
    audiences: Setting<Vec<String>>,
    /// What they must be good for.
    scopes: Setting<Vec<Scope>>,
    /// Where the keys are.
    jwks_url: Setting<Option<KeysUrl>>,
    /// How far clocks may differ.
    leeway: Setting<Duration>,
}

/// What a configuration file sets.
#[derive(Debug, Default)]
pub(super) struct OAuthFile {
    issuers: Option<Vec<ServiceUrl>>,
    resource: Option<ServiceUrl>,
    audiences: Option<Vec<String>>,
    scopes: Option<Vec<Scope>>,
    jwks_url: Option<KeysUrl>,
    leeway: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuthOnDisk {
    issuers: Option<Vec<String>>,
    resource: Option<String>,
    audiences: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
    jwks_url: Option<String>,
    leeway_seconds: Option<u64>,
}

impl OAuthOnDisk {
    pub(super) fn checked(self) -> Result<OAuthFile, ParseError> {
        let expected = OAuthNameError::expected;
        let leeway = self.leeway_seconds;
        let leeway = within("access.oauth.leeway_seconds", leeway, &LEEWAY_SECONDS)?;
        Ok(OAuthFile {
            issuers: names("access.oauth.issuers", self.issuers, expected)?,
            resource: parsed("access.oauth.resource", self.resource, |_| RESOURCE)?,
            audiences: self.audiences.and_then(some),
            scopes: names("access.oauth.scopes", self.scopes, expected)?,
            jwks_url: parsed("access.oauth.jwks_url", self.jwks_url, expected)?,
            leeway: leeway.map(Duration::from_secs),
        })
    }
}

impl OAuthFile {
    /// Whether it says who is let in.
    pub(super) const fn lets_in(&self) -> bool {
        self.issuers.is_some()
            || self.resource.is_some()
            || self.audiences.is_some()
            || self.scopes.is_some()
            || self.jwks_url.is_some()
            || self.leeway.is_some()
    }
}

impl OAuthConfig {
    pub(super) fn settle(flags: OAuthFlags, files: &[(std::path::PathBuf, ConfigFile)]) -> Self {
        Self {
            issuers: settle(
                flag(some(flags.issuers)),
                files,
                |file| file.access.oauth.issuers.clone(),
                Vec::new,
            ),
            resource: settle(
                flag(flags.resource.map(Some)),
                files,
                |file| file.access.oauth.resource.clone().map(Some),
                || None,
            ),
            audiences: settle(
                flag(some(flags.audiences)),
                files,
                |file| file.access.oauth.audiences.clone(),
                Vec::new,
            ),
            scopes: settle(
                flag(some(flags.scopes)),
                files,
                |file| file.access.oauth.scopes.clone(),
                Vec::new,
            ),
            jwks_url: settle(
                flag(flags.jwks_url.map(Some)),
                files,
                |file| file.access.oauth.jwks_url.clone().map(Some),
                || None,
            ),
            leeway: settle(
                None,
                files,
                |file| file.access.oauth.leeway,
                || DEFAULT_LEEWAY,
            ),
        }
    }

    /// Whether somebody's tokens are trusted.
    pub(crate) fn is_set(&self) -> bool {
        !self.issuers.value.is_empty()
    }

    /// Refuses what says too little or too much.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let (issuers, resource) = (&self.issuers, &self.resource);
        issuers.check("access.oauth.issuers", |issuers| {
            anyhow::ensure!(
                issuers.is_empty() || resource.value.is_some(),
                "tokens need an audience: set the URL under which clients reach MCP with {}, such as https://box.example:7420/mcp",
                self.issuers.origin.name_of("access.oauth.resource")
            );
            let is_one = |issuer: &ServiceUrl| issuers.iter().filter(|one| *one == issuer).count();
            anyhow::ensure!(
                issuers.iter().all(|issuer| is_one(issuer) == 1),
                "an issuer is listed twice"
            );
            Ok(())
        })?;
        let needs_issuer = |origin: &Origin| {
            format!(
                "no trusted issuer is configured; set it with {}",
                origin.name_of("access.oauth.issuers")
            )
        };
        resource.check("access.oauth.resource", |resource| {
            let needs_issuer = needs_issuer(&self.resource.origin);
            anyhow::ensure!(resource.is_none() || self.is_set(), needs_issuer);
            Ok(())
        })?;
        self.audiences
            .check("access.oauth.audiences", |audiences| {
                let needs_issuer = needs_issuer(&self.audiences.origin);
                anyhow::ensure!(audiences.is_empty() || self.is_set(), needs_issuer);
                Ok(())
            })?;
        self.leeway.check("access.oauth.leeway_seconds", |_| {
            let needs_issuer = needs_issuer(&self.leeway.origin);
            let is_named = self.leeway.origin != Origin::Default;
            anyhow::ensure!(!is_named || self.is_set(), needs_issuer);
            Ok(())
        })?;
        self.scopes.check("access.oauth.scopes", |scopes| {
            let needs_issuer = needs_issuer(&self.scopes.origin);
            anyhow::ensure!(scopes.is_empty() || self.is_set(), needs_issuer);
            Ok(())
        })?;
        self.jwks_url.check("access.oauth.jwks_url", |url| {
            anyhow::ensure!(
                url.is_none() || issuers.value.len() == 1,
                "a URL of keys applies to one issuer: configure only that issuer, or remove the URL"
            );
            Ok(())
        })
    }

    /// Whom tokens must be for, and under which name that is reached.
    pub(crate) fn resource(&self) -> Option<&ServiceUrl> {
        self.resource.value.as_ref().filter(|_| self.is_set())
    }

    /// The host of the resource.
    pub(crate) fn host(&self) -> Option<HostName> {
        self.resource()?.host().parse().ok()
    }

    /// Who gives tokens out.
    pub(crate) fn issuers(&self) -> &[ServiceUrl] {
        &self.issuers.value
    }

    /// The rules, if somebody's tokens are trusted.
    pub(crate) fn rules(&self) -> Option<OAuthRules> {
        let (resource, first) = (self.resource()?, self.issuers.value.first()?);
        let keys = &self.jwks_url.value;
        let issuers = self.issuers.value.iter().map(|url| TrustedIssuer {
            url: url.clone(),
            keys: keys.clone(),
        });
        Some(OAuthRules {
            issuers: issuers.collect(),
            audiences: self.audiences.value.clone(),
            scopes: self.scopes.value.clone(),
            leeway: self.leeway.value,
            ..OAuthRules::new(resource.clone(), first.clone())
        })
    }

    /// Every key.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let quoted = |text: Option<String>| toml::Value::from(text.unwrap_or_default()).to_string();
        vec![
            Entry {
                key: "access.oauth.issuers",
                value: list(&self.issuers.value),
                meaning: "OAuth issuers whose access tokens are accepted over HTTP",
                origin: self.issuers.origin.clone(),
            },
            Entry {
                key: "access.oauth.resource",
                value: quoted(self.resource.value.as_ref().map(ToString::to_string)),
                meaning: "URL under which clients reach MCP; it must be the audience of their access tokens",
                origin: self.resource.origin.clone(),
            },
            Entry {
                key: "access.oauth.audiences",
                value: list(&self.audiences.value),
                meaning: "additional audiences that are accepted in access tokens",
                origin: self.audiences.origin.clone(),
            },
            Entry {
                key: "access.oauth.scopes",
                value: list(&self.scopes.value),
                meaning: "scopes that access tokens must have",
                origin: self.scopes.origin.clone(),
            },
            Entry {
                key: "access.oauth.jwks_url",
                value: quoted(self.jwks_url.value.as_ref().map(ToString::to_string)),
                meaning: "URL of the issuer's public keys (JWKS), if there is one issuer; by default the issuer's metadata names it",
                origin: self.jwks_url.origin.clone(),
            },
            Entry {
                key: "access.oauth.leeway_seconds",
                value: self.leeway.value.as_secs().to_string(),
                meaning: "tolerated clock difference of issuers, 0 to 600 seconds",
                origin: self.leeway.origin.clone(),
            },
        ]
    }
}
