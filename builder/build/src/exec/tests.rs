use super::*;

fn sh(script: &str) -> Command {
    Command::new("sh", "a shell").arg("-c").arg(script)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn command_line_is_pasteable_and_without_environment() {
    let command = Command::new("buildah", "buildah")
        .arg("bud")
        .option("--build-arg", "A=it's $HOME")
        .env("TOKEN", "hush")
        .user_words(["-x", ""]);
    assert_eq!(command.to_string(), r"buildah bud '--build-arg=A=it'\''s $HOME' -- -x ''");
}

#[test]
fn both_streams_are_read_and_environment_is_ours() {
    let mut seen = Vec::new();
    let command = sh("echo out; echo err >&2; echo $A$LC_ALL; cat; printf end").env("A", "a");
    let answer = block_on(command.run(|stream, line| seen.push((stream, line.to_owned()))));
    assert_eq!(answer.unwrap(), b"out\naC\nend");
    assert!(seen.contains(&(Stream::Stderr, "err".to_owned())), "{seen:?}");
}

#[test]
fn each_failure_of_a_program_has_its_code() {
    let missing = Command::new("mosb-no-such-program", "the package x");
    let slow = sh("echo begun; sleep 60").limit(Duration::from_millis(200));
    let failing = sh("yes | head -c 20000; echo the end >&2; exit 3");
    for (what, command, reason, text) in [
        ("missing", missing, "program-missing", "install the package x"),
        ("slow", slow, "program-timed-out", "begun"),
        ("failing", failing, "program-failed", "exit status: 3"),
    ] {
        let error = block_on(command.run(|_, _| ())).unwrap_err();
        assert_eq!(error.code(), reason, "{what}");
        assert!(error.to_string().contains(text), "{what}: {error}");
        assert!(error.to_string().len() < LAST_OUTPUT + 200, "{what}");
    }
}

#[test]
fn a_child_of_the_child_dies_with_it() {
    let mut pid = String::new();
    let command = sh("sleep 60 & echo $!; wait").limit(Duration::from_millis(300));
    let error = block_on(command.run(|_, line| pid = line.to_owned())).unwrap_err();
    assert_eq!(error.code(), "program-timed-out");
    let stat = format!("/proc/{pid}/stat");
    let gone = |text: io::Result<String>| text.map_or(true, |text| text.contains(") Z "));
    let died = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        gone(std::fs::read_to_string(&stat))
    });
    assert!(died, "{pid} still runs");
}
