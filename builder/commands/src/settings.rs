//! The options of all commands, and what the environment adds to them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::error::Error;
use mosb_registry::ProxyVariables;
use mosb_types::Secret;

/// The options of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub struct Settings {
    /// The format of the result: text, json, yaml; for plan also containerfile and configmap, for render name
    #[arg(
        short = 'o',
        long = "format",
        global = true,
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub format: Format,
    /// Registry credentials [default: those of podman and docker]
    #[arg(long, global = true, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// Registry credentials for pushes [default: those for pulls]
    #[arg(long, global = true, value_name = "FILE")]
    pub push_authfile: Option<PathBuf>,
    /// CAs (*.crt) and client certificates (*.cert, *.key) for all registries
    #[arg(long, global = true, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// With =false, certificates are not checked and plain HTTP is allowed
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", hide_possible_values = true)]
    pub tls_verify: bool,
    /// Mirrors and blocked registries (registries.conf, version 2)
    #[arg(long, global = true, value_name = "FILE")]
    pub registries_conf: Option<PathBuf>,
    /// The images that may be pulled, and the signatures that they must have (policy.json) [default: podman's]
    #[arg(long, global = true, alias = "policy", value_name = "FILE")]
    pub signature_policy: Option<PathBuf>,
    /// The cache of base trees [default: $XDG_CACHE_HOME/mosb, else ~/.cache/mosb]
    #[arg(long, global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// No progress, errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more, for debugging; never a credential
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// The format of progress and warnings on stderr
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    #[arg(skip)]
    pub environment: Environment,
}

impl Settings {
    /// The logins for pushes.
    pub fn push_logins(&self) -> Option<&PathBuf> {
        self.push_authfile.as_ref().or(self.authfile.as_ref())
    }

    /// Candidate paths of registries.conf, in order, and whether the file must exist.
    pub fn registries_confs(&self) -> Vec<(PathBuf, bool)> {
        match &self.registries_conf {
            Some(file) => vec![(file.clone(), true)],
            None => self.environment.registries_confs(),
        }
    }

    /// Candidate paths of policy.json, in order, and whether the file must exist.
    pub fn signature_policies(&self) -> Vec<(PathBuf, bool)> {
        match &self.signature_policy {
            Some(file) => vec![(file.clone(), true)],
            None => self.environment.signature_policies(),
        }
    }

    /// The cache of this machine.
    ///
    /// # Errors
    /// There is no home directory, and no other one was given.
    pub fn cache_dir(&self) -> Result<PathBuf, Error> {
        let given = self.cache_dir.clone();
        given.or_else(|| self.environment.cache_dir()).ok_or(Error::NoCache)
    }
}

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One object, with a schema in `docs/schemas/`.
    Json,
    Yaml,
    /// The Containerfile of a plan.
    Containerfile,
    /// The ConfigMaps of a plan.
    Configmap,
    /// The name of a rendered config.
    Name,
    /// What differs, for a pull request.
    Markdown,
}

/// `--log-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// One JSON object a line.
    Json,
    /// A line with a timestamp, which some commands use instead of [`Self::Text`].
    #[value(skip)]
    Timed,
}

/// The variables that mosb uses. An empty one counts as not set.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`, if absolute.
    pub cache_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, if absolute.
    pub config_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, if absolute.
    pub runtime_dir: Option<PathBuf>,
    pub registry_auth_file: Option<PathBuf>,
    /// `DOCKER_CONFIG`: a folder.
    pub docker_config: Option<PathBuf>,
    /// `CONTAINERS_REGISTRIES_CONF`.
    pub registries_conf: Option<PathBuf>,
    /// `CONTAINERS_POLICY_JSON`.
    pub signature_policy: Option<PathBuf>,
    /// `MOSB_BUILDER_IMAGE`: the image of build pods.
    pub builder_image: Option<String>,
    /// `POD_NAME`: the pod of this process.
    pub pod_name: Option<String>,
    /// `NODE_NAME`: the node of this process.
    pub node_name: Option<String>,
    /// `http_proxy`, `https_proxy` and `no_proxy`, else those in upper case.
    pub proxy: ProxyVariables,
}

impl Environment {
    /// Reads the variables of this process.
    pub fn read() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    /// Reads the variables with `lookup`.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        // XDG base directory specification: a relative path is invalid and ignored.
        let xdg = |name: &str| path(name).filter(|path| path.is_absolute());
        let either =
            |lower: &str, upper: &str| set(lower).or_else(|| set(upper))?.into_string().ok();
        Self {
            home: path("HOME"),
            cache_home: xdg("XDG_CACHE_HOME"),
            config_home: xdg("XDG_CONFIG_HOME"),
            runtime_dir: xdg("XDG_RUNTIME_DIR"),
            registry_auth_file: path("REGISTRY_AUTH_FILE"),
            docker_config: path("DOCKER_CONFIG"),
            registries_conf: path("CONTAINERS_REGISTRIES_CONF"),
            signature_policy: path("CONTAINERS_POLICY_JSON"),
            builder_image: set("MOSB_BUILDER_IMAGE").and_then(|value| value.into_string().ok()),
            pod_name: set("POD_NAME").and_then(|value| value.into_string().ok()),
            node_name: set("NODE_NAME").and_then(|value| value.into_string().ok()),
            proxy: ProxyVariables {
                http: either("http_proxy", "HTTP_PROXY").map(Secret::new),
                https: either("https_proxy", "HTTPS_PROXY").map(Secret::new),
                no_proxy: either("no_proxy", "NO_PROXY"),
            },
        }
    }

    /// `$XDG_CACHE_HOME/mosb`, else `~/.cache/mosb`; `None` without a home directory.
    pub fn cache_dir(&self) -> Option<PathBuf> {
        let below_home = || self.home.as_ref().map(|home| home.join(".cache"));
        self.cache_home.clone().or_else(below_home).map(|dir| dir.join("mosb"))
    }

    /// Where registries.conf is searched, in order, if no option names it; one named by a variable
    /// must exist.
    pub fn registries_confs(&self) -> Vec<(PathBuf, bool)> {
        self.containers_files(self.registries_conf.as_ref(), "registries.conf")
    }

    /// The same of policy.json (containers-policy.json(5)).
    pub fn signature_policies(&self) -> Vec<(PathBuf, bool)> {
        self.containers_files(self.signature_policy.as_ref(), "policy.json")
    }

    fn containers_files(&self, named: Option<&PathBuf>, name: &str) -> Vec<(PathBuf, bool)> {
        if let Some(file) = named {
            return vec![(file.clone(), true)];
        }
        let below_home = || self.home.as_ref().map(|home| home.join(".config"));
        let user = self.config_home.clone().or_else(below_home);
        let user = user.map(|dir| dir.join("containers").join(name));
        user.into_iter()
            .chain([PathBuf::from("/etc/containers").join(name)])
            .map(|file| (file, false))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        Environment::of(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_cache_is_below_xdg_else_home_else_nowhere() {
        for (what, variables, want) in [
            ("nothing", &[][..], None),
            ("an empty home", &[("HOME", "")], None),
            ("home", &[("HOME", "/h")], Some("/h/.cache/mosb")),
            ("xdg", &[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")], Some("/c/mosb")),
            ("relative xdg", &[("HOME", "/h"), ("XDG_CACHE_HOME", "c")], Some("/h/.cache/mosb")),
            ("xdg without a home", &[("XDG_CACHE_HOME", "/c")], Some("/c/mosb")),
        ] {
            assert_eq!(of(variables).cache_dir(), want.map(PathBuf::from), "{what}");
        }
    }

    #[test]
    fn proxies_are_secret_and_lower_case_goes_first() {
        let environment = of(&[
            ("https_proxy", "http://u:hunter2@p:1"),
            ("HTTPS_PROXY", "http://q:1"),
            ("NO_PROXY", "x"),
        ]);
        assert_eq!(environment.proxy.https, Some(Secret::new("http://u:hunter2@p:1".to_owned())));
        assert_eq!(environment.proxy.no_proxy.as_deref(), Some("x"));
        assert!(!format!("{environment:?}").contains("hunter2"));
    }

    #[test]
    fn registries_conf_of_a_variable_must_exist() {
        let named = of(&[("CONTAINERS_REGISTRIES_CONF", "/r"), ("HOME", "/h")]);
        assert_eq!(named.registries_confs(), [("/r".into(), true)]);
        let usual = of(&[("HOME", "/h")]);
        assert_eq!(
            usual.registries_confs(),
            [
                ("/h/.config/containers/registries.conf".into(), false),
                ("/etc/containers/registries.conf".into(), false)
            ]
        );
    }
}
