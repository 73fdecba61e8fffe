//! The catalogs of all providers as one, in a deterministic order: providers as they registered,
//! each with its own order.

mod enter;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use orchestra_wire::{Revision, Rope};
use tokio::sync::watch;

use crate::{
    Catalog, PromptDescriptor, ProviderId, ResourceDescriptor, SkillDescriptor, TemplateDescriptor,
    ToolDescriptor,
    listing::{self, ListKind, Listing},
    reserved::{Reserved, is_server_uri},
    skills,
    slot::Slot,
    template,
};

/// One provider's catalog at that moment.
#[derive(Clone)]
struct Source {
    slot: Arc<Slot>,
    /// The catalog that is merged.
    catalog: Arc<Catalog>,
    /// The catalog that the provider has published: the same, unless it has one for the clients.
    published: Arc<Catalog>,
    /// Has seen `published`.
    seen: watch::Receiver<Arc<Catalog>>,
}

/// Catalogs of clients that are merged in the place of the usual ones: provider and place among its
/// [`Catalog::of_clients`]. Empty for most clients.
pub(crate) type Choice = Vec<(usize, usize)>;

/// Where an item stands: which provider, and the place in its catalog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    source: usize,
    item: usize,
    /// Under a URI that says whose it is, because another has the same.
    is_prefixed: bool,
}

/// All catalogs at one moment.
#[derive(Default)]
pub(crate) struct Merged {
    sources: Vec<Source>,
    reserved: Arc<Reserved>,
    /// Rises with each merge of a hub.
    pub(crate) generation: u64,
    pub(crate) tools: Vec<At>,
    prompts: HashMap<String, At>,
    resources: HashMap<String, At>,
    templates: Vec<At>,
    skills: Vec<At>,
    /// By the URI of their directory.
    skill_roots: BTreeMap<String, At>,
    skill_listing: OnceLock<Listing>,
    shown: [Vec<At>; 4],
    /// Each list as the newest revision shows it, written when it is compared with another.
    newest: [OnceLock<Listing>; 4],
}

/// Two providers offer the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{kind} {name} of provider {newcomer} is already offered by provider {owner}")]
pub struct Collision {
    /// `tool`, `prompt`, `resource`, `resource template` or `skill`.
    pub kind: &'static str,
    /// The name, URI or URI template.
    pub name: String,
    /// Who has it.
    pub owner: ProviderId,
    /// Who wants it.
    pub newcomer: ProviderId,
}

/// Tells of the collisions that were not there before, once for each provider that has some.
pub(crate) fn tell_of(told: &mut HashSet<Collision>, collisions: Vec<Collision>) {
    let mut fresh: BTreeMap<&ProviderId, Vec<&Collision>> = BTreeMap::new();
    for collision in collisions.iter().filter(|found| !told.contains(found)) {
        fresh
            .entry(&collision.newcomer)
            .or_default()
            .push(collision);
    }
    for (provider, hidden) in fresh {
        let (count, first) = (hidden.len(), hidden[0]);
        tracing::warn!(%provider, count, %first, "hid entries whose names are already taken");
    }
    *told = collisions.into_iter().collect();
}

/// The skill below whose directory a URI lies.
fn owner_of<'o>(owners: &'o BTreeMap<String, At>, uri: &str) -> Option<&'o At> {
    let above = uri.rmatch_indices('/').map(|(at, _)| &uri[..at]);
    above.into_iter().find_map(|root| owners.get(root))
}

impl Merged {
    /// Merges what the providers offer now. Where two offer the same name the first keeps it, and
    /// the collision is told. Reserved names belong to their owners in any order.
    pub(crate) fn of(
        slots: impl IntoIterator<Item = Arc<Slot>>,
        reserved: Arc<Reserved>,
    ) -> (Self, Vec<Collision>) {
        let source = |slot: Arc<Slot>| {
            let mut seen = slot.catalog.clone();
            let catalog = Arc::clone(&seen.borrow_and_update());
            Source {
                slot,
                published: Arc::clone(&catalog),
                catalog,
                seen,
            }
        };
        Self::merge(slots.into_iter().map(source).collect(), reserved)
    }

    fn merge(sources: Vec<Source>, reserved: Arc<Reserved>) -> (Self, Vec<Collision>) {
        let mut merged = Self {
            sources,
            reserved,
            ..Self::default()
        };
        let mut collisions = Vec::new();
        let mut tools = HashMap::new();
        let mut templates = HashMap::new();
        for source in 0..merged.sources.len() {
            let catalog = Arc::clone(&merged.sources[source].catalog);
            let prefix = merged.sources[source].slot.uri_prefix.clone();
            let prefix = prefix.as_deref();
            let names = catalog.tools.iter().map(|tool| &tool.name);
            let mut enter = enter::Enter {
                sources: &merged.sources,
                source,
                reserved: &merged.reserved,
                collisions: &mut collisions,
            };
            merged
                .tools
                .extend(enter.all("tool", names, &mut tools, None));
            let names = catalog.prompts.iter().map(|prompt| &prompt.name);
            let shown = enter.all("prompt", names, &mut merged.prompts, None);
            merged.shown[ListKind::Prompts.index()].extend(shown);
            let names = catalog.resources.iter().map(|resource| &resource.uri);
            let shown = enter.all("resource", names, &mut merged.resources, prefix);
            merged.shown[ListKind::Resources.index()].extend(shown);
            let names = catalog
                .templates
                .iter()
                .map(|template| &template.uri_template);
            merged
                .templates
                .extend(enter.all("resource template", names, &mut templates, prefix));
            let skills = catalog.skills.iter().flatten();
            let entered = enter.skills(skills, &mut merged.skill_roots);
            merged.skills.extend(entered);
        }
        merged.shown[ListKind::Tools.index()] = merged.tools.clone();
        merged.shown[ListKind::Templates.index()] = merged.templates.clone();
        (merged, collisions)
    }

    /// The catalogs that a client sees in the place of the usual ones.
    pub(crate) fn choice(&self, client: u64) -> Choice {
        let of = |(source, of): (usize, &Source)| {
            let mut all = of.published.of_clients.iter();
            let place = all.position(|of| of.clients.contains(&client))?;
            Some((source, place))
        };
        self.sources.iter().enumerate().filter_map(of).collect()
    }

    /// What clients with this choice see.
    pub(crate) fn chosen(self: &Arc<Self>, choice: &[(usize, usize)]) -> Arc<Self> {
        if choice.is_empty() {
            return Arc::clone(self);
        }
        let mut sources = self.sources.clone();
        for (source, place) in choice {
            let source = &mut sources[*source];
            source.catalog = Arc::clone(&source.published.of_clients[*place].catalog);
        }
        // Collisions are those of the usual catalogs, or hide the same names.
        let (mut merged, _) = Self::merge(sources, Arc::clone(&self.reserved));
        merged.generation = self.generation;
        Arc::new(merged)
    }

    /// Whether a provider has published a newer catalog.
    pub(crate) fn is_stale(&self) -> bool {
        self.sources.iter().any(|source| {
            // A provider that has closed its channel may have published once more before.
            let closed = |_| !Arc::ptr_eq(&source.seen.borrow(), &source.published);
            source.seen.has_changed().unwrap_or_else(closed)
        })
    }

    pub(crate) fn differs(&self, other: &Self, kind: ListKind) -> bool {
        self.newest(kind).text() != other.newest(kind).text()
    }

    fn newest(&self, kind: ListKind) -> &Listing {
        self.newest[kind.index()].get_or_init(|| {
            let mut told = self.shown[kind.index()].clone();
            // They say themselves when it matters: what was never listed changes for nobody.
            told.retain(|at| !self.slot(*at).lists_anew);
            self.listing_of(kind, &told, Revision::NEWEST)
        })
    }

    /// Whether a client sees anything of a kind.
    pub(crate) fn offers(&self, kind: ListKind) -> bool {
        let mut of_clients = self.of_clients();
        !self.shown[kind.index()].is_empty()
            || of_clients.any(|catalog| match kind {
                ListKind::Tools => !catalog.tools.is_empty(),
                ListKind::Prompts => !catalog.prompts.is_empty(),
                ListKind::Resources => !catalog.resources.is_empty(),
                ListKind::Templates => !catalog.templates.is_empty(),
            })
    }

    /// The catalogs that some clients see.
    fn of_clients(&self) -> impl Iterator<Item = &Catalog> {
        let all = self.sources.iter();
        let all = all.flat_map(|source| &source.published.of_clients);
        all.map(|of| &*of.catalog)
    }

    /// Names of the tools that a client sees.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        let usual = self.tools.iter().map(|at| self.tool(*at));
        let of_clients = self.of_clients().flat_map(|catalog| &catalog.tools);
        usual.chain(of_clients).map(|tool| &*tool.name)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.sources.iter().map(|source| &source.slot)
    }

    pub(crate) fn catalogs(&self) -> impl Iterator<Item = &Catalog> {
        self.sources.iter().map(|source| &*source.catalog)
    }

    pub(crate) fn slot(&self, at: At) -> &Arc<Slot> {
        &self.sources[at.source].slot
    }

    /// Returns whether a tool may be called by this name without the prefix of its server.
    pub(crate) fn permits_bare(&self, name: &str) -> bool {
        self.reserved.permits_bare(name)
    }

    /// Returns the owner of a name that the server behind a provider must not use.
    pub(crate) fn reserved_by(&self, slot: &Slot, name: &str) -> Option<ProviderId> {
        self.reserved.owner(slot, name)
    }

    pub(crate) fn tool(&self, at: At) -> &ToolDescriptor {
        &self.sources[at.source].catalog.tools[at.item]
    }

    fn prompt(&self, at: At) -> &PromptDescriptor {
        &self.sources[at.source].catalog.prompts[at.item]
    }

    fn resource(&self, at: At) -> Cow<'_, ResourceDescriptor> {
        let resource = &self.sources[at.source].catalog.resources[at.item];
        match self.prefix(at) {
            Some(prefix) => Cow::Owned(ResourceDescriptor {
                uri: format!("{prefix}{}", resource.uri),
                ..resource.clone()
            }),
            None => Cow::Borrowed(resource),
        }
    }

    fn template(&self, at: At) -> Cow<'_, TemplateDescriptor> {
        let template = &self.sources[at.source].catalog.templates[at.item];
        match self.prefix(at) {
            Some(prefix) => Cow::Owned(TemplateDescriptor {
                uri_template: format!("{prefix}{}", template.uri_template),
                ..template.clone()
            }),
            None => Cow::Borrowed(template),
        }
    }

    /// What stands before the URI of an item that another has as well.
    fn prefix(&self, at: At) -> Option<&str> {
        let prefix = self.sources[at.source].slot.uri_prefix.as_deref();
        prefix.filter(|_| at.is_prefixed)
    }

    /// The provider whose URIs begin as this one does, if it offers or may have what follows. The case of the scheme
    /// matters only if the names of two servers differ in nothing else.
    fn find_prefixed(&self, uri: &str) -> Option<&Arc<Slot>> {
        let exact = |head: &str, prefix: &str| head == prefix;
        let in_any_case = |head: &str, prefix: &str| head.eq_ignore_ascii_case(prefix);
        let found = self.find_behind(uri, exact);
        found.or_else(|| self.find_behind(uri, in_any_case))
    }

    fn find_behind(&self, uri: &str, is_same: impl Fn(&str, &str) -> bool) -> Option<&Arc<Slot>> {
        let found = self.sources.iter().find(|source| {
            let prefix = source.slot.uri_prefix.as_deref();
            let parts =
                prefix.and_then(|prefix| Some((uri.split_at_checked(prefix.len())?, prefix)));
            let Some(((head, own), prefix)) = parts else {
                return false;
            };
            if !is_same(head, prefix) {
                return false;
            }
            let Catalog {
                resources,
                templates,
                reads_unlisted,
                ..
            } = &*source.catalog;
            *reads_unlisted
                || resources.iter().any(|resource| resource.uri == own)
                || templates.iter().any(|template| {
                    template.uri_template == own || template::matches(&template.uri_template, own)
                })
        });
        found.map(|source| &source.slot)
    }

    fn skill(&self, at: At) -> Option<&SkillDescriptor> {
        self.sources[at.source]
            .catalog
            .skills
            .as_ref()?
            .get(at.item)
    }

    /// Whether a provider serves skills, if only none now.
    pub(crate) fn serves_skills(&self) -> bool {
        self.catalogs().any(|catalog| catalog.skills.is_some())
    }

    pub(crate) fn skills(&self) -> impl Iterator<Item = &SkillDescriptor> {
        self.skills.iter().filter_map(|at| self.skill(*at))
    }

    pub(crate) fn skill_listing(&self) -> &Listing {
        self.skill_listing.get_or_init(|| {
            let write = |rope: &mut Rope, skill: &&SkillDescriptor, _| skills::entry(rope, skill);
            let skills: Vec<&SkillDescriptor> = self.skills().collect();
            Listing::of(&skills, Revision::NEWEST, write)
        })
    }

    pub(crate) fn find_prompt(&self, name: &str) -> Option<(&Arc<Slot>, &PromptDescriptor)> {
        let at = *self.prompts.get(name)?;
        Some((self.slot(at), self.prompt(at)))
    }

    /// The provider that offers a URI: by the resource itself, by a skill's directory that it lies
    /// in, or by a template that matches.
    pub(crate) fn find_offered(&self, uri: &str) -> Option<&Arc<Slot>> {
        if let Some(slot) = self.find_prefixed(uri) {
            return Some(slot);
        }
        let by_template = |at: &&At| template::matches(&self.template(**at).uri_template, uri);
        let at = match self.resources.get(uri) {
            Some(at) => Some(at),
            None => {
                owner_of(&self.skill_roots, uri).or_else(|| self.templates.iter().find(by_template))
            }
        };
        at.map(|at| self.slot(*at))
    }

    /// The provider to read a URI from: the one that offers it, or, when only one provider offers
    /// resources, that one.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<&Arc<Slot>> {
        let found = self.find_offered(uri).or_else(|| self.find_unlisted(uri));
        if let Some(slot) = found {
            return Some(slot);
        }
        let is_servers = is_server_uri(uri);
        let mut offering = self.sources.iter().filter(|source| {
            let catalog = &source.catalog;
            if is_servers && !source.slot.lists_anew {
                return false;
            }
            !catalog.resources.is_empty()
                || !catalog.templates.is_empty()
                || catalog.skills.is_some()
        });
        match (offering.next(), offering.next()) {
            (Some(only), None) => Some(&only.slot),
            _ => None,
        }
    }

    /// The provider that reads what it does not list, and may have this URI: the only one of those
    /// with URIs of the same scheme, or the only one at all. A URI with the scheme of a server belongs to no other server
    /// except a relay.
    pub(crate) fn find_unlisted(&self, uri: &str) -> Option<&Arc<Slot>> {
        fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
            let first = all.next()?;
            all.next().is_none().then_some(first)
        }
        fn scheme(uri: &str) -> Option<&str> {
            uri.split_once(':').map(|(scheme, _)| scheme)
        }
        let wanted = scheme(uri)?;
        let is_servers = is_server_uri(uri);
        let open = |source: &&Source| {
            source.catalog.reads_unlisted && (!is_servers || source.slot.lists_anew)
        };
        let open = self.sources.iter().filter(open);
        let speaks = |source: &&Source| {
            let Catalog {
                resources,
                templates,
                ..
            } = &*source.catalog;
            let uris = resources.iter().map(|resource| &resource.uri);
            let templates = templates.iter().map(|template| &template.uri_template);
            let mut schemes = uris.chain(templates).filter_map(|uri| scheme(uri));
            schemes.any(|scheme| scheme.eq_ignore_ascii_case(wanted))
        };
        let by_scheme = only(open.clone().filter(speaks));
        let is_anybodys = self.sources.iter().any(|source| speaks(&source));
        by_scheme
            .or_else(|| only(open).filter(|_| !is_anybodys))
            .map(|source| &source.slot)
    }

    pub(crate) fn find_template(&self, uri_template: &str) -> Option<&Arc<Slot>> {
        let named = |at: &&At| self.template(**at).uri_template == uri_template;
        self.templates.iter().find(named).map(|at| self.slot(*at))
    }

    pub(crate) fn instructions(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .catalogs()
            .filter_map(|catalog| catalog.instructions.as_deref())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    pub(crate) fn listing(&self, kind: ListKind, revision: Revision) -> Listing {
        self.listing_of(kind, &self.shown[kind.index()], revision)
    }

    fn listing_of(&self, kind: ListKind, shown: &[At], revision: Revision) -> Listing {
        match kind {
            ListKind::Tools => self.tool_listing(shown, revision),
            ListKind::Prompts => Listing::of(
                shown.iter().map(|at| self.prompt(*at)),
                revision,
                listing::prompt,
            ),
            ListKind::Resources => {
                let shown: Vec<_> = shown.iter().map(|at| self.resource(*at)).collect();
                Listing::of(
                    shown.iter().map(|item| &**item),
                    revision,
                    listing::resource,
                )
            }
            ListKind::Templates => {
                let shown: Vec<_> = shown.iter().map(|at| self.template(*at)).collect();
                Listing::of(
                    shown.iter().map(|item| &**item),
                    revision,
                    listing::template,
                )
            }
        }
    }

    pub(crate) fn tool_listing(&self, tools: &[At], revision: Revision) -> Listing {
        Listing::of(
            tools.iter().map(|at| self.tool(*at)),
            revision,
            listing::tool,
        )
    }
}
