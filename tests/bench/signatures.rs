//! What a signature, the SBOM and the provenance add to a build, beside cosign and syft, and what
//! verifying the base adds to a plan.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config;
use crate::fixture::{Base, Fixture};
use crate::one_config::build_of;
use crate::race::{Contender, Times, median, race, run, run_watched};
use crate::report::{Report, Table, megabytes, seconds};
use mosb_tests::parts::{COSIGN, SCANNERS};
use mosb_tests::{Cosign, FaultProxy, syft};

/// The files of a large config.
const FILES: usize = 26_000;
/// How often the memory of each program is measured.
const WATCHED: usize = 5;

pub fn measure(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    // Parts are built now, and not while something is measured.
    let _ = (COSIGN.directory(), SCANNERS.directory());
    let site = Site::new(fixture, base);
    site.signing(rounds, report);
    site.verifying(rounds, report);
    site.large_sbom(rounds.div_ceil(3), report);
}

/// How an image is built or signed.
#[derive(Debug, Clone, Copy)]
enum Way {
    Unsigned,
    Signed,
    /// With the key of cosign, which is always encrypted.
    SignedWithEncryptedKey,
    /// An image that was built without a signature.
    Cosign,
}

/// Keys, and a base in the registry.
struct Site<'a> {
    fixture: &'a Fixture,
    base: &'a Base,
    directory: PathBuf,
    cache: PathBuf,
}

impl<'a> Site<'a> {
    fn new(fixture: &'a Fixture, base: &'a Base) -> Self {
        let (directory, cache) = (fixture.fresh("keys"), fixture.shared("program-trees"));
        fs::create_dir(&directory).unwrap();
        run(fixture.mosb(&cache).args(["keys", "new"]).arg(directory.join("os.key")));
        let site = Self { fixture, base, directory, cache };
        site.cosign().generate_key_pair();
        site
    }

    fn cosign(&self) -> Cosign<'_> {
        Cosign { part: &COSIGN, directory: &self.directory }
    }

    fn signing(&self, rounds: usize, report: &mut Report) {
        let ways = [
            ("mosb build", Way::Unsigned),
            ("mosb build --sign-key", Way::Signed),
            ("the same with the encrypted key of cosign", Way::SignedWithEncryptedKey),
            ("cosign sign of a built image", Way::Cosign),
        ];
        let address = self.fixture.registry.address();
        let contenders = ways.map(|(name, way)| {
            Contender::new(name, rounds, move || run(&mut self.command(way, address)).1)
        });
        let times = race(contenders.into());
        let proxy = FaultProxy::start(address);
        let requests = ways.map(|(_, way)| {
            let mut command = self.command(way, &proxy.address());
            proxy.rule(|_| None);
            run(&mut command);
            proxy.seen().len()
        });
        // In turns, as the race.
        let peaks: Vec<_> = (0..WATCHED)
            .map(|_| ways.map(|(_, way)| run_watched(&mut self.command(way, address)).1))
            .collect();
        let memory = |way: usize| median(peaks.iter().map(|round| round[way] as f64));
        let mut table = Table::new(["", "median", "× mosb build", "requests", "memory"]);
        for (way, times_of_way) in times.iter().enumerate() {
            table.row([
                times_of_way.name.clone(),
                seconds(times_of_way.median()),
                format!("{:.2}", times_of_way.to(&times[0])),
                requests[way].to_string(),
                megabytes(memory(way) as u64),
            ]);
        }
        report.table("signing", table);
        let added = added(&times[1], &times[0]);
        let what = "signature, SBOM and provenance of a direct build";
        report.at_most(what, added.as_secs_f64() * 1e3, 60.0, "ms");
        let added = mebibytes(memory(1) - memory(0));
        report.at_most("resident memory that they add", added, 8.0, "MiB");
    }

    /// A command for the next config, in the registry at this address.
    fn command(&self, way: Way, host: &str) -> Command {
        let config = self.fixture.config_file(self.fixture.number());
        self.command_for(way, &config, host)
    }

    fn command_for(&self, way: Way, config: &Path, host: &str) -> Command {
        let mut build = build_of(self.fixture, config, self.base, host, &self.cache);
        match way {
            Way::Unsigned => build,
            Way::Signed => {
                build.arg("--sign-key").arg(self.directory.join("os.key"));
                build
            }
            Way::SignedWithEncryptedKey => {
                build.arg("--sign-key").arg(self.directory.join("cosign.key"));
                build.args(["--sign-key-password", "env:COSIGN_PASSWORD"]);
                build.env("COSIGN_PASSWORD", Cosign::PASSWORD);
                build
            }
            Way::Cosign => self.cosign().sign(&built(&mut build)),
        }
    }

    fn verifying(&self, rounds: usize, report: &mut Report) {
        let base = self.fixture.registry.repository(&self.base.image());
        let mut sign = self.fixture.mosb(&self.cache);
        sign.args(["sign", "-q", &base, "--sign-key"]).arg(self.directory.join("os.key"));
        run(&mut sign);
        let signed = json!([
            { "type": "sigstoreSigned", "keyPath": self.directory.join("os.key.pub") },
        ]);
        let policies = [
            ("mosb plan", json!([{ "type": "insecureAcceptAnything" }])),
            ("the same, with a base that must be signed", signed),
        ];
        let mut contenders = Vec::new();
        for (number, (name, requirements)) in policies.into_iter().enumerate() {
            let policy = self.directory.join(format!("policy-{number}.json"));
            fs::write(&policy, json!({ "default": requirements }).to_string()).unwrap();
            let base = base.clone();
            contenders.push(Contender::new(name, rounds, move || {
                let mut plan = self.fixture.mosb(&self.cache);
                plan.args(["plan", "-q"]).arg(self.fixture.config_file(self.fixture.number()));
                plan.args(["--base", &base, "--signature-policy"]).arg(&policy);
                run(&mut plan).1
            }));
        }
        let times = race(contenders);
        report.table("verified-base", Table::of_race(&times, "mosb plan"));
        let added = added(&times[1], &times[0]);
        report.at_most(
            "verifying a base whose tree is cached",
            added.as_secs_f64() * 1e3,
            20.0,
            "ms",
        );
    }

    fn large_sbom(&self, rounds: usize, report: &mut Report) {
        let address = self.fixture.registry.address();
        let build = |way| {
            let config = self.fixture.fresh("config").with_extension("json");
            let object = config::of_files(self.fixture.number(), FILES);
            fs::write(&config, object.to_string()).unwrap();
            self.command_for(way, &config, address)
        };
        let image = built(&mut build(Way::Signed));
        assert!(self.listed_files(&image) >= FILES);
        let document = self.fixture.fresh("sbom");
        let times = race(vec![
            Contender::new("mosb build", rounds, || run(&mut build(Way::Unsigned)).1),
            Contender::new("mosb build --sign-key", rounds, || run(&mut build(Way::Signed)).1),
            Contender::new("syft of a built image", rounds, || {
                let mut command = syft(&self.directory);
                command.args(["scan", "-q", &format!("registry:{image}"), "-o"]);
                command.arg(format!("spdx-json={}", document.display()));
                run(command.env("SYFT_FILE_METADATA_SELECTION", "all")).1
            }),
        ]);
        report.table("large-sbom", Table::of_race(&times, "mosb build"));
        let peaks: Vec<_> = (0..WATCHED)
            .map(|_| [Way::Unsigned, Way::Signed].map(|way| run_watched(&mut build(way)).1))
            .collect();
        let memory = |way: usize| median(peaks.iter().map(|round| round[way] as f64));
        let what = format!("SBOM of {FILES} files");
        report.at_most(what, added(&times[1], &times[0]).as_secs_f64(), 0.3, "s");
        let added = mebibytes(memory(1) - memory(0));
        report.at_most("resident memory that this SBOM adds", added, 64.0, "MiB");
    }

    /// How many files the SBOM of an image lists.
    fn listed_files(&self, image: &str) -> usize {
        let mut verify = self.fixture.mosb(&self.cache);
        verify.args(["verify", "-q", image, "--key"]).arg(self.directory.join("os.key.pub"));
        let text = String::from_utf8(run(&mut verify).0).unwrap();
        let (before, _) = text.split_once(" files").expect("what an SBOM has");
        before.rsplit(' ').next().unwrap_or_default().parse().unwrap()
    }
}

/// Runs a build, and returns its image by digest.
fn built(build: &mut Command) -> String {
    let result: Value = serde_json::from_slice(&run(build).0).unwrap();
    result["image"].as_str().unwrap().to_owned()
}

fn added(longer: &Times, shorter: &Times) -> Duration {
    longer.median().saturating_sub(shorter.median())
}

fn mebibytes(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
