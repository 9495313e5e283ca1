//! Which key the controller signs images with.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::annotation::AnnotationError;
use crate::names::is_subdomain;
use crate::{Metadata, labels};

/// How the controller signs the images of pools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SigningSettings {
    /// Name of the Secret in mosb's namespace with the private key (ECDSA P-256), as
    /// `cosign generate-key-pair k8s://NAMESPACE/NAME` makes it, or with PKCS #8 in PEM: keys `cosign.key`, and
    /// `cosign.password` if it is encrypted. Without it, only pools that name one (annotation
    /// `mosb.dev/signing-secret`) are signed.
    pub secret: Option<String>,
    /// Whether an image that can't be signed stays out of service.
    pub required: bool,
}

impl Default for SigningSettings {
    fn default() -> Self {
        Self { secret: None, required: true }
    }
}

impl SigningSettings {
    /// The Secret with the key of a pool: that of its MachineOSConfig (annotation
    /// `mosb.dev/signing-secret`), else that of the settings. None if its images are not signed.
    ///
    /// # Errors
    /// The annotation is not the name of a Secret.
    pub fn secret_of(&self, config: &Metadata) -> Result<Option<String>, AnnotationError> {
        let Some(name) = config.annotation(labels::SIGNING_SECRET) else {
            return Ok(self.secret.clone());
        };
        if !is_subdomain(name) {
            let remedy = "write the name of a Secret in mosb's namespace";
            return Err(AnnotationError::new(
                labels::SIGNING_SECRET,
                name,
                "not a name of a Secret",
                remedy,
            ));
        }
        Ok(Some(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::tests::annotated;

    #[test]
    fn the_secret_of_a_pool_wins() {
        let settings = |secret: Option<&str>| SigningSettings {
            secret: secret.map(str::to_owned),
            ..SigningSettings::default()
        };
        let (none, own) = (Metadata::default(), annotated(labels::SIGNING_SECRET, "own"));
        for (what, settings, config, want) in [
            ("none", settings(None), &none, None),
            ("of the settings", settings(Some("all")), &none, Some("all")),
            ("of the pool", settings(Some("all")), &own, Some("own")),
            ("of the pool only", settings(None), &own, Some("own")),
        ] {
            assert_eq!(settings.secret_of(config), Ok(want.map(str::to_owned)), "{what}");
        }
        for wrong in ["../x", "a/b"] {
            let config = annotated(labels::SIGNING_SECRET, wrong);
            let error = settings(Some("all")).secret_of(&config).unwrap_err().to_string();
            assert!(error.contains("mosb.dev/signing-secret"), "{error}");
        }
    }
}
