//! `mosb build` as people run it beside `crane append`: wall time, processor time, and how much of the
//! latter is spent before the first request.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fs, thread};

use crate::bare::Order;
use crate::counted::Counted;
use crate::fixture::{Base, Fixture};
use crate::one_config::{bare_calls, build_command};
use crate::race::{Contender, Times, race, run};
use crate::report::{Report, Table, seconds};
use crate::{base, peers};
use mosb_tests::{Access, Registry, Server, Transport};

/// The share of its processor time that the program may spend before its first request, in percent.
const BEFORE_FIRST_REQUEST: f64 = 10.0;

/// `time` of bash has the resolution of the kernel; `/proc` has hundredths of a second.
const TIME: &str = r#"TIMEFORMAT='%3U %3S'; time "$@""#;

pub fn measure(fixture: &Fixture, bases: [&Base; 2], rounds: usize, report: &mut Report) {
    let https = Registry::start(Server::Distribution, Access::Anyone, Transport::Https);
    let mut table = Table::new([
        "",
        "wall time",
        "× crane append",
        "processor time",
        "× crane append",
        "before the first request",
    ]);
    for base in bases {
        https.push(&base::layout(&base.shape), base::TAG, &base.image());
        let limit = if base.shape.name == base::SMALL.name { 1.0 } else { 0.7 };
        for (transport, registry) in [("HTTP", &fixture.registry), ("HTTPS", &https)] {
            let site = Site { fixture, base, registry };
            let name = format!("{} base, {transport}", base.shape.name);
            let times = site.race(rounds, transport == "HTTP");
            let [crane, mosb] = [&times[0], &times[1]];
            let way = Counted::to(registry.address());
            // In turns, as the race.
            let spent: Vec<[Spent; 2]> = (0..rounds)
                .map(|_| {
                    [site.crane(&way.address), site.mosb(&way.address)]
                        .map(|command| Spent::by(&command, &way))
                })
                .collect();
            let of = |program: usize| Spent::sum(spent.iter().map(|round| &round[program]));
            let [of_crane, of_mosb] = [of(0), of(1)];
            for (times, spent) in [(crane, &of_crane), (mosb, &of_mosb)] {
                let mean = spent.total / u32::try_from(rounds).expect("few rounds");
                table.row([
                    format!("{}, {name}", times.name),
                    seconds(times.median()),
                    format!("{:.2}", times.to(crane)),
                    seconds(mean),
                    format!("{:.2}", spent.total.as_secs_f64() / of_crane.total.as_secs_f64()),
                    format!("{:.0} %", spent.share_before()),
                ]);
            }
            if let Some(bare) = times.get(2) {
                table.row([
                    format!("{}, {name}", bare.name),
                    seconds(bare.median()),
                    format!("{:.2}", bare.to(crane)),
                    String::new(),
                    String::new(),
                    String::new(),
                ]);
            }
            report.at_most(format!("program vs. crane append, {name}"), mosb.to(crane), limit, "×");
            report.required(
                &format!("processor time of the program before its first request, {name}"),
                of_mosb.share_before(),
                BEFORE_FIRST_REQUEST,
                "%",
            );
        }
    }
    report.table("program", table);
}

/// A base in one of the two registries.
struct Site<'a> {
    fixture: &'a Fixture,
    base: &'a Base,
    registry: &'a Registry,
}

impl Site<'_> {
    /// crane and mosb, and the bare calls if they can be made.
    fn race(&self, rounds: usize, bare: bool) -> Vec<Times> {
        let address = self.registry.address();
        let mut contenders = vec![
            Contender::new("crane append", rounds, || run(&mut self.crane(address)).1),
            Contender::new("mosb build", rounds, || run(&mut self.mosb(address)).1),
        ];
        if bare {
            contenders.push(Contender::new("bare calls, at once", rounds, || {
                bare_calls(self.fixture, self.base, Order::AtOnce)
            }));
        }
        race(contenders)
    }

    fn crane(&self, host: &str) -> Command {
        let mut command = peers::crane(self.fixture, self.base, host);
        command.env("HOME", self.fixture.shared("home"));
        if let Some(directory) = self.certificates() {
            command.env("SSL_CERT_FILE", directory.join("ca.crt"));
        }
        command
    }

    fn mosb(&self, host: &str) -> Command {
        let cache = self.fixture.shared("program-trees");
        let mut command = build_command(self.fixture, self.base, host, &cache);
        // With certificates for a registry, plain HTTP is not tried.
        if let Some(directory) = self.certificates() {
            command.arg("--cert-dir").arg(directory);
        }
        command
    }

    /// The directory with the authority's certificate, for a registry with TLS.
    fn certificates(&self) -> Option<PathBuf> {
        let directory = self.registry.certificates();
        directory.join("ca.crt").exists().then_some(directory)
    }
}

/// The processor time of a program, and its part before the first bytes to the registry.
#[derive(Debug, Default)]
struct Spent {
    total: Duration,
    before: Duration,
}

impl Spent {
    /// Runs a command whose registry is behind the proxy.
    fn by(command: &Command, way: &Counted) -> Self {
        let (shell, before) =
            (Arc::<OnceLock<u32>>::default(), Arc::<OnceLock<Duration>>::default());
        let (started, seen) = (Arc::clone(&shell), Arc::clone(&before));
        way.at_next_bytes(move || {
            // The thread that sent them waits for the answer now, so that it is accounted for. What
            // another one reads of the config meanwhile counts too.
            thread::sleep(Duration::from_millis(1));
            seen.set(processor_time(child_of(*started.wait()))).expect("it is called once");
        });
        let mut timed = Command::new("bash");
        timed.args(["-c", TIME, "bash"]).arg(command.get_program()).args(command.get_args());
        timed.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in command.get_envs() {
            timed.env(name, value.unwrap_or_default());
        }
        timed.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = timed.spawn().unwrap();
        shell.set(child.id()).expect("it is set once");
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {stderr}");
        let times = stderr.lines().last().expect("what `time` prints");
        let total = times.split(' ').map(|time| time.parse::<f64>().unwrap()).sum();
        let total = Duration::from_secs_f64(total);
        Self { total, before: *before.get().expect("it asked the registry") }
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            total: sum.total + one.total,
            before: sum.before + one.before,
        })
    }

    /// In percent.
    fn share_before(&self) -> f64 {
        self.before.as_secs_f64() / self.total.as_secs_f64() * 100.0
    }
}

/// The only child of a process.
fn child_of(process: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// What all threads of a process have used.
fn processor_time(process: u32) -> Duration {
    let threads = fs::read_dir(Path::new("/proc").join(process.to_string()).join("task")).unwrap();
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap();
        let nanoseconds = text.split(' ').next().expect("time on a processor").parse().unwrap();
        Duration::from_nanos(nanoseconds)
    };
    threads.map(|thread| of_thread(thread.unwrap())).sum()
}
