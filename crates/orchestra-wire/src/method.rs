//! The one table of methods: name, who may send it, in which era, and whether it is answered.

use crate::Era;

/// How methods begin by which one part of a program asks another for what MCP has no word for. No
/// client can ask for them, and they never leave the program.
pub const INTERNAL: &str = "orchestra/internal/";

/// Who may send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client sends it.
    ClientToServer,
    /// The server sends it.
    ServerToClient,
    /// Either may send it.
    Both,
}

/// The eras in which a method exists as a message of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraScope {
    /// Up to 2025-11-25.
    Session,
    /// From 2026-07-28.
    Stateless,
    /// In both.
    Both,
}

/// Whether a message is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    /// It has an id and gets a response.
    Request,
    /// It has none and gets none.
    Notification,
}

impl EraScope {
    /// Whether `era` is in scope.
    #[must_use]
    pub const fn contains(self, era: Era) -> bool {
        matches!(
            (self, era),
            (Self::Both, _) | (Self::Session, Era::Session) | (Self::Stateless, Era::Stateless)
        )
    }
}

macro_rules! methods {
    ($($variant:ident = $name:literal, $direction:ident, $era:ident, $kind:ident;)*) => {
        /// A method of MCP.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Method {
            /// All methods.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Finds a method by name.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Who sends it.
            #[must_use]
            pub const fn direction(self) -> Direction {
                match self { $(Self::$variant => Direction::$direction,)* }
            }

            /// When it exists.
            #[must_use]
            pub const fn era(self) -> EraScope {
                match self { $(Self::$variant => EraScope::$era,)* }
            }

            /// Whether it is answered.
            #[must_use]
            pub const fn kind(self) -> MethodKind {
                match self { $(Self::$variant => MethodKind::$kind,)* }
            }
        }
    };
}

methods! {
    Initialize = "initialize", ClientToServer, Session, Request;
    Discover = "server/discover", ClientToServer, Stateless, Request;
    Ping = "ping", Both, Session, Request;
    ToolsList = "tools/list", ClientToServer, Both, Request;
    ToolsCall = "tools/call", ClientToServer, Both, Request;
    PromptsList = "prompts/list", ClientToServer, Both, Request;
    PromptsGet = "prompts/get", ClientToServer, Both, Request;
    ResourcesList = "resources/list", ClientToServer, Both, Request;
    TemplatesList = "resources/templates/list", ClientToServer, Both, Request;
    ResourcesRead = "resources/read", ClientToServer, Both, Request;
    ResourcesSubscribe = "resources/subscribe", ClientToServer, Session, Request;
    ResourcesUnsubscribe = "resources/unsubscribe", ClientToServer, Session, Request;
    SkillsList = "skills/list", ClientToServer, Both, Request;
    SkillsGet = "skills/get", ClientToServer, Both, Request;
    DirectoryRead = "resources/directory/read", ClientToServer, Both, Request;
    SubscriptionsListen = "subscriptions/listen", ClientToServer, Stateless, Request;
    TasksGet = "tasks/get", ClientToServer, Stateless, Request;
    TasksUpdate = "tasks/update", ClientToServer, Stateless, Request;
    TasksCancel = "tasks/cancel", ClientToServer, Stateless, Request;
    Complete = "completion/complete", ClientToServer, Both, Request;
    SetLevel = "logging/setLevel", ClientToServer, Session, Request;
    ElicitationCreate = "elicitation/create", ServerToClient, Session, Request;
    SamplingCreateMessage = "sampling/createMessage", ServerToClient, Session, Request;
    RootsList = "roots/list", ServerToClient, Session, Request;
    Initialized = "notifications/initialized", ClientToServer, Session, Notification;
    RootsListChanged = "notifications/roots/list_changed", ClientToServer, Session, Notification;
    Cancelled = "notifications/cancelled", Both, Both, Notification;
    Progress = "notifications/progress", Both, Both, Notification;
    LogMessage = "notifications/message", ServerToClient, Both, Notification;
    ToolsListChanged = "notifications/tools/list_changed", ServerToClient, Both, Notification;
    PromptsListChanged = "notifications/prompts/list_changed", ServerToClient, Both, Notification;
    ResourcesListChanged = "notifications/resources/list_changed", ServerToClient, Both, Notification;
    ResourceUpdated = "notifications/resources/updated", ServerToClient, Both, Notification;
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged", ServerToClient, Stateless, Notification;
    TaskChanged = "notifications/tasks", ServerToClient, Stateless, Notification;
    ElicitationComplete = "notifications/elicitation/complete", ServerToClient, Session, Notification;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.name()), Some(*method));
            let named_so = method.name().starts_with("notifications/");
            assert_eq!(
                named_so,
                method.kind() == MethodKind::Notification,
                "{method:?}"
            );
        }
        assert_eq!(Method::parse("tools/Call"), None);
    }

    #[test]
    fn eras_are_told_apart() {
        assert!(Method::Ping.era().contains(Era::Session));
        assert!(!Method::Ping.era().contains(Era::Stateless));
        assert!(!Method::Discover.era().contains(Era::Session));
        assert!(Method::ToolsCall.era().contains(Era::Stateless));
    }
}
