//! Labels and annotations, spelt as the existing API spells them; those that only mosb has begin
//! with `mosb.dev/`.

/// Image label: name of the rendered MachineConfig.
pub const IMAGE_MACHINE_CONFIG: &str = "machineconfig";
/// Image label: name of the pool.
pub const IMAGE_MACHINE_CONFIG_POOL: &str = "machineconfigpool";
/// Image label: pullspec of the base OS image.
pub const IMAGE_BASE: &str = "baseOSContainerImage";
/// Image label: pullspec of the extensions image, `host/repository@sha256:…`; only where packages
/// are taken from it.
pub const IMAGE_EXTENSIONS: &str = "baseOSExtensionsContainerImage";
/// Image label: SHA-256 of the canonical inputs, 64 hex digits.
pub const IMAGE_INPUTS: &str = "mosb.dev/inputs";
/// Image label: the integer that is raised only when output bytes change.
pub const IMAGE_FORMAT: &str = "mosb.dev/format";
/// Image label of a prepared base: SHA-256 of the canonical inputs of what was run, 64 hex digits.
pub const IMAGE_PREPARED_INPUTS: &str = "mosb.dev/prepared-inputs";
/// Image label: digest of the prepared base that the layer of the config is on.
pub const IMAGE_PREPARED: &str = "mosb.dev/prepared";
/// Image label, and annotation of the manifest, of OCI: the name of the base image.
pub const OCI_BASE_NAME: &str = "org.opencontainers.image.base.name";
/// Image label, and annotation of the manifest, of OCI: the digest of the base image's manifest.
pub const OCI_BASE_DIGEST: &str = "org.opencontainers.image.base.digest";

/// Annotation of a rendered MachineConfig: which renderer made it.
pub const GENERATED_BY_CONTROLLER_VERSION: &str =
    "machineconfiguration.openshift.io/generated-by-controller-version";
/// Annotation of a rendered MachineConfig: the release it belongs to.
pub const RELEASE_IMAGE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";

/// Annotation of a rendered MachineConfig: `true` when an administrator's MachineConfig names the
/// base OS image.
pub const OS_IMAGE_URL_OVERRIDDEN: &str =
    "machineconfiguration.openshift.io/os-image-url-overridden";
/// Label of a MachineConfig: the pool or role that it is for.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";

/// Annotation of everything that serves a build with entitlements.
pub const HAS_ENTITLEMENT: &str = "machineconfiguration.openshift.io/has-etc-pki-entitlement";
/// Annotation of everything that serves a build with package repositories of the cluster.
pub const HAS_REPOSITORIES: &str = "machineconfiguration.openshift.io/has-etc-yum-repos-d";
/// Annotation of everything that serves a build with keys of packages.
pub const HAS_PACKAGE_KEYS: &str = "machineconfiguration.openshift.io/has-etc-pki-rpm-gpg";

/// Label of everything that serves a build of a rendered MachineConfig.
pub const RENDERED_MACHINE_CONFIG: &str =
    "machineconfiguration.openshift.io/rendered-machine-config";
/// Label of everything that serves a build for a pool.
pub const TARGET_MACHINE_CONFIG_POOL: &str =
    "machineconfiguration.openshift.io/target-machine-config-pool";
/// Label of everything that serves a MachineOSBuild.
pub const MACHINE_OS_BUILD: &str = "machineconfiguration.openshift.io/machine-os-build";
/// Label of objects that live as long as a build.
pub const EPHEMERAL_BUILD_OBJECT: &str = "machineconfiguration.openshift.io/ephemeral-build-object";
/// Label of all objects of on-cluster layering.
pub const ON_CLUSTER_LAYERING: &str = "machineconfiguration.openshift.io/on-cluster-layering";
/// Label of everything that serves a MachineOSConfig.
pub const MACHINE_OS_CONFIG: &str = "machineconfiguration.openshift.io/machine-os-config";
/// The same of a MachineOSBuild, as the design document of install-time images spells it.
pub const MACHINEOSCONFIG: &str = "machineconfiguration.openshift.io/machineosconfig";
/// Label of a MachineOSBuild that represents an image built elsewhere (`true`). Annotation of a
/// MachineOSConfig, and of the component MachineConfig created for it: that image,
/// `host/repository@sha256:…`.
pub const PRE_BUILT_IMAGE: &str = "machineconfiguration.openshift.io/pre-built-image";
/// Label of a copy of a registry secret in the one form that all tools read.
pub const CANONICALIZED_SECRET: &str = "machineconfiguration.openshift.io/canonicalizedSecret";
/// Label of such a copy: the secret it was made of.
pub const ORIGINAL_SECRET_NAME: &str = "machineconfiguration.openshift.io/originalSecretName";
/// Label of a pool that opts in without a MachineOSConfig.
pub const LAYERING_ENABLED: &str = "machineconfiguration.openshift.io/layering-enabled";

/// Annotation of a MachineOSConfig: the build in use, or on its way.
pub const CURRENT_MACHINE_OS_BUILD: &str =
    "machineconfiguration.openshift.io/current-machine-os-build";
/// Annotation of a MachineOSConfig: build again, whatever its value.
pub const REBUILD: &str = "machineconfiguration.openshift.io/rebuild";
/// Value of [`REBUILD`] that makes no prepared base anew.
pub const REBUILD_CONFIG_ONLY: &str = "config-only";
/// Annotation of a MachineOSBuild: the secret that its image was pushed with.
pub const RENDERED_IMAGE_PUSH_SECRET: &str =
    "machineconfiguration.openshift.io/rendered-image-push-secret";
/// Annotation of a MachineOSBuild: the UID of the Job that serves it.
pub const JOB_UID: &str = "machineconfiguration.openshift.io/job-uid";
/// Annotation of a pool: the image of its rendered config.
pub const NEWEST_IMAGE_EQUIVALENT_CONFIG: &str =
    "machineconfiguration.openshift.io/newestImageEquivalentConfig";

/// Annotation of a pool that mosb renders: the fingerprint of what its `spec.configuration` was
/// rendered from; 64 hex digits.
pub const RENDERED_FROM: &str = "mosb.dev/rendered-from";
/// Annotation of a pool that mosb renders: what the tags in its MachineConfigs and the settings
/// were found to be, as JSON.
pub const PINS: &str = "mosb.dev/pins";
/// Annotation of a MachineOSBuild: SHA-256 of the canonical inputs of its image, 64 hex digits.
/// Only builds of mosb have it.
pub const INPUTS: &str = IMAGE_INPUTS;
/// Annotation of a MachineOSBuild: the fingerprint of what was wanted, known without asking
/// anybody; 64 hex digits.
pub const WANTED: &str = "mosb.dev/wanted";
/// Annotation of a MachineOSBuild: `direct` or `containerfile`, what its Job is made for.
pub const METHOD: &str = "mosb.dev/method";
/// Annotation of a MachineOSBuild and of its Job: which Job of the build it is, from 1.
pub const ATTEMPT: &str = "mosb.dev/attempt";
/// Annotation of a MachineOSBuild: how many of its Jobs failed in a way that does not pass by
/// itself.
pub const FAILURES: &str = "mosb.dev/failures";
/// Annotation of a MachineOSBuild: no new Job before this time (RFC 3339).
pub const NOT_BEFORE: &str = "mosb.dev/not-before";
/// Annotation of a MachineOSBuild: the base that it is planned on, pinned. Annotation of a
/// MachineOSConfig: the base that its pool is built on instead of what the tag names now,
/// `host/repository:tag@sha256:…`.
pub const BASE: &str = "mosb.dev/base";
/// Annotation of a MachineOSBuild: how its config, or the settings, name the base.
pub const BASE_NAME: &str = "mosb.dev/base-name";
/// Annotation of a MachineOSBuild: when its base was made (RFC 3339), if the base says so.
pub const BASE_CREATED: &str = "mosb.dev/base-created";
/// Annotation of a MachineOSBuild: the label `org.opencontainers.image.version` or `version` of its
/// base.
pub const BASE_VERSION: &str = "mosb.dev/base-version";
/// Annotation of a MachineOSConfig: `none`, `notify` or `build`, what happens when the tag of its base
/// names a newer image.
pub const FOLLOW_BASE: &str = "mosb.dev/follow-base";
/// Annotation of a MachineOSConfig: what the tag of its base names now is recorded once; `true`.
pub const UPDATE_BASE: &str = "mosb.dev/update-base";
/// Annotation of a MachineOSConfig: no newer base is recorded by itself; `true`.
pub const HOLD_BASE: &str = "mosb.dev/hold-base";
/// Annotation of a MachineOSBuild on another base than the image that was in service: what of the OS
/// changes, as JSON.
pub const OS_SUMMARY: &str = "mosb.dev/os-summary";
/// Annotation of a MachineOSBuild: the platform of its image, `os/architecture`.
pub const PLATFORM: &str = "mosb.dev/platform";
/// Annotation of a MachineOSBuild that must run something: the digest of the prepared base that it
/// is made on, `make` or `make-anew` while its Job makes one, or `without` if it can't have one.
pub const PREPARED: &str = "mosb.dev/prepared";
/// Annotation of a MachineOSBuild that has a prepared base: when that was made (RFC 3339).
pub const PREPARED_AT: &str = "mosb.dev/prepared-at";
/// Annotation of a MachineOSBuild that has a prepared base: SHA-256 of everything that is run in it,
/// 64 hex digits.
pub const PREPARED_INPUTS: &str = "mosb.dev/prepared-inputs";
/// Annotation of a MachineOSBuild that has a prepared base: the key of its record in ConfigMap
/// `mosb-prepared-bases`; 64 hex digits.
pub const PREPARED_KEY: &str = "mosb.dev/prepared-key";
/// Annotation of a MachineOSBuild: why its method is the Containerfile, or why its last Job was not
/// enough.
pub const REASON: &str = "mosb.dev/reason";
/// Annotation of a MachineOSBuild that has the image of another one, made of an older config: that
/// one's name.
pub const ADOPTED_FROM: &str = "mosb.dev/adopted-from";
/// Annotation of a MachineOSBuild that has the image of another one although every config gets an
/// image: its own would bring nothing else to machines (`true`).
pub const SAME_LAYER: &str = "mosb.dev/same-layer";
/// Annotation of a MachineOSBuild that has the pool's pre-built image: it is what a build would
/// have made (`true`).
pub const RECOGNISED: &str = "mosb.dev/recognised";
/// Annotation of a MachineOSBuild whose image is made although the registry has one: a rebuild was asked
/// for, or that image is being deleted (`true`).
pub const ANEW: &str = "mosb.dev/anew";
/// Annotation of a MachineOSBuild: the digest of what machines need of its config beside the image. A
/// build of another builder does not have it, and a roll-out of that one leaves all of it as it is.
pub const MACHINE_PART: &str = "mosb.dev/machine-part";
/// Annotation of a MachineOSBuild: the digest of an earlier image, if the two differ only in files that
/// machines take on without a reboot and the pool has [`LIVE_APPLY`]. It is the image in service when
/// the build was made, or the one that this one names in turn. So all images of one value, and the one
/// that it names, come to each other's machines without a reboot.
pub const LIVE_FROM: &str = "mosb.dev/live-from";
/// Annotation of a MachineOSBuild: when its image was deleted from the registry (RFC 3339), or
/// `deleting` and when that began. No machine gets such an image, and a build of the same name is made anew.
pub const IMAGE_DELETED: &str = "mosb.dev/image-deleted";
/// Annotation of a Job: the objects that its pod needs, `Kind/name` with blanks between; it starts
/// once all of them are there.
pub const NEEDS: &str = "mosb.dev/needs";
/// Annotation of a Job: the format of its build's inputs that its containers read.
pub const BUILD_SPEC: &str = "mosb.dev/build-spec";
/// Annotation of a MachineOSConfig: what runs its builds, an `imageBuilderType`.
pub const BUILDER: &str = "mosb.dev/builder";
/// Annotation of a MachineOSConfig: `true` lets machines take on files that say how images are pulled
/// and whom they trust without a reboot.
pub const LIVE_APPLY: &str = "mosb.dev/live-apply";
/// Annotation of a MachineOSConfig: `every-config` or `os-change`.
pub const BUILD_ON: &str = "mosb.dev/build-on";
/// Annotation of a MachineOSConfig: a rendered config whose image is built although machines can't
/// take all of it on without a reinstallation.
pub const ACCEPT_UNRECONCILABLE: &str = "mosb.dev/accept-unreconcilable";
/// Annotation of a MachineOSConfig: UID of the build that a rebuild was asked for, or whose image was
/// deleted before it was wanted again.
pub const REBUILD_OF: &str = "mosb.dev/rebuild-of";
/// Annotation of a MachineOSConfig that mosb made for a pool with the label `layering-enabled`.
pub const MADE_FOR_LABEL: &str = "mosb.dev/made-for-label";
/// Annotation of the component MachineConfig that brings a pool its pre-built image: the
/// MachineOSConfig that it serves. Only one with it is ever deleted by mosb.
pub const SERVES: &str = "mosb.dev/machine-os-config";
/// Label of a Secret (`true`): MachineOSConfigs may name it for pulls, so that the `RUN` lines of
/// their Containerfiles may read it.
pub const PULL_SECRET: &str = "mosb.dev/pull-secret";
/// Label of the ConfigMap to which a build's pod writes its result, so that it can be watched
/// without the large ones.
pub const RESULT: &str = "mosb.dev/result";
/// What the annotations begin with that mosb reads: those of machine configuration and its own. On a
/// Node, policy mosb-nodes protects them from the kubelet.
pub const ANNOTATION_PREFIXES: [&str; 2] = ["machineconfiguration.openshift.io/", "mosb.dev/"];
/// Annotation of a node: the rendered config that it has.
pub const NODE_CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Annotation of a node: the rendered config that it should have.
pub const NODE_DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";

/// Annotation of a MachineOSConfig: how far the image is brought to the machines; `none`, `stage`
/// or `automatic`.
pub const ROLLOUT: &str = "mosb.dev/rollout";
/// Annotation of a MachineOSConfig: the build that the machines get instead of the one in service,
/// `NAME@sha256:…`; the name `stock` is the base image.
pub const ROLLOUT_BUILD: &str = "mosb.dev/rollout-build";
/// Annotation of a MachineOSConfig: a build that is rolled out once, `NAME@sha256:…`; removed when
/// all machines have it.
pub const ROLLOUT_ONCE: &str = "mosb.dev/rollout-once";
/// Annotation of a MachineOSConfig: whether a built image comes into service by itself; `automatic` or
/// `manual`.
pub const PROMOTE: &str = "mosb.dev/promote";
/// Annotation of a MachineOSConfig: the images that people approved or rejected, as JSON.
pub const APPROVALS: &str = "mosb.dev/approvals";
/// Annotation of a MachineOSBuild that has an image: how far that is on its way to service; a
/// [`Stage`](crate::promotion::Stage).
pub const STAGE: &str = "mosb.dev/stage";
/// Annotation of a MachineOSConfig: what failed checks of its images do, `CHECK=block`, `warn` or `off`.
pub const CHECKS: &str = "mosb.dev/checks";
/// Annotation of a MachineOSConfig: checks of images that keep these out of service no more,
/// `CHECK@sha256:…`.
pub const OVERRIDE_CHECK: &str = "mosb.dev/override-check";
/// Annotation of a MachineOSBuild: what the checks of its image found, as JSON.
pub const CHECKED: &str = "mosb.dev/checked";
/// Annotation of a MachineOSConfig: the Secret with the key that signs its images.
pub const SIGNING_SECRET: &str = "mosb.dev/signing-secret";
/// Annotation of a MachineOSBuild whose image the controller signed, and found signed in the registry:
/// the fingerprint of the key, `sha256:…`.
pub const SIGNED: &str = "mosb.dev/signed";
/// Annotation of a MachineOSBuild whose image has to be signed and is not: why, `code: message`.
pub const NOT_SIGNED: &str = "mosb.dev/not-signed";
/// Label of the Job of an own check and of its pod: the name of the check.
pub const CHECK: &str = "mosb.dev/check";
/// Annotation of a MachineOSConfig: the policy of its roll-outs, one of `rolloutPolicies` in the settings.
pub const ROLLOUT_POLICY: &str = "mosb.dev/rollout-policy";
/// Annotation of a MachineOSConfig: the target that failed on too many of its machines, as JSON.
pub const FAILED_TARGET: &str = "mosb.dev/failed-target";
/// Annotation of a MachineOSConfig: whether its machines adopt what their first config wrote; `true`.
pub const ADOPT: &str = "mosb.dev/adopt";
/// Annotation of a MachineOSConfig: whether its machines reboot their user space alone where they can;
/// `auto` or `off`.
pub const SOFT_REBOOT: &str = "mosb.dev/soft-reboot";
/// Annotation of a MachineOSConfig: whether its machines verify the signature of each image that they
/// pull; `required` or `none`.
pub const VERIFY_ON_MACHINES: &str = "mosb.dev/verify-on-machines";
/// Annotation of a MachineOSConfig: the Secret with the user data of new machines,
/// `NAMESPACE/NAME`. Label of that Secret, with any value: mosb may write it.
pub const USER_DATA: &str = "mosb.dev/user-data";
/// Annotation of that Secret: the MachineOSConfig for which mosb writes it, `NAME/UID`.
pub const USER_DATA_OWNER: &str = "mosb.dev/user-data-owner";
/// Annotation of a MachineOSConfig: the images that were in service, as JSON.
pub const HISTORY: &str = "mosb.dev/history";
/// Annotation of a MachineOSConfig that is pinned to the stock image: that image as the registry
/// resolved it, `host/repository@sha256:…`.
pub const STOCK_IMAGE: &str = "mosb.dev/stock-image";
/// Annotation of a MachineOSConfig: what its machines get when it is deleted; `keep` or `stock`.
pub const ON_DELETE: &str = "mosb.dev/on-delete";
/// Finalizer of a MachineOSConfig whose image was rolled out.
pub const ROLLOUT_FINALIZER: &str = "mosb.dev/rollout";
/// Annotation of a node: what it reported last, as JSON.
pub const NODE_REPORT: &str = "mosb.dev/node-report";
/// Annotation of a node: what is staged on it, as JSON.
pub const NODE_STAGED: &str = "mosb.dev/staged";
/// Annotation of a node: that it may be unavailable, and for which target, as JSON.
pub const NODE_SLOT: &str = "mosb.dev/slot";
/// Annotation of a node: the cluster autoscaler does not remove it.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Annotation of a node: the target that it booted and does not run any more, as JSON.
pub const NODE_FALLBACK: &str = "mosb.dev/fallback";
/// Annotation of a node: the target that it ran well for the soak time of its pool, as JSON.
pub const NODE_CONFIRMED: &str = "mosb.dev/confirmed";
/// Annotation of a node: how its checks go while it runs a target that is not confirmed, as JSON.
pub const NODE_SOAK: &str = "mosb.dev/soak";
/// Annotation of a node: the image that it booted, `host/repository@sha256:…`.
pub const NODE_CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// Annotation of a node: the image that it should boot.
pub const NODE_DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// Annotation of a node: `Working`, `Done`, `Degraded`, `Rebooting` or `Unreconcilable`.
pub const NODE_STATE: &str = "machineconfiguration.openshift.io/state";
/// Annotation of a node: why its state is `Degraded` or `Unreconcilable`.
pub const NODE_REASON: &str = "machineconfiguration.openshift.io/reason";
/// Label of a Job of a roll-out and of its pod: `report`, `stage` or `apply`.
pub const NODE_JOB: &str = "mosb.dev/node-job";
/// Annotation of a Job of a roll-out, its pod and its Secret: the pool of the machine.
pub const POOL: &str = "mosb.dev/pool";
/// Annotation of a Job of a roll-out: its target, as JSON, for people. mosb reads the command.
pub const NODE_TARGET: &str = "mosb.dev/node-target";
