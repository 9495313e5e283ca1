use super::super::render::tests::{base, request};
use super::*;
use crate::containerfile::split;
use crate::plan::Draft;
use mosb_image::tree::BaseTree;
use serde_json::json;

fn hint_for(own: &str) -> Option<Hint> {
    let config = json!({
        "ignition": { "version": "3.5.0" },
        "storage": {
            "files": [{ "path": "/etc/chrony.d/a.conf" }],
            "directories": [{ "path": "/opt/agent" }],
            "links": [{ "path": "/etc/localtime", "target": "x" }],
        },
        "systemd": { "units": [{ "name": "agent.service", "contents": "[Unit]\n" }] },
    });
    let mut request = request(json!({ "config": config }), base(false, false));
    request.containerfile = Some(own.to_owned());
    let plan = Draft::new(request).unwrap().finish(&BaseTree::default()).unwrap();
    hint(&split(&plan.request).unwrap(), &plan)
}

#[test]
fn what_names_nothing_of_config_gets_a_hint() {
    for (what, own, stage, says) in [
        ("packages", "FROM configs\nRUN dnf install -y htop", 0, "FROM base in line 1"),
        ("no FROM", "\nRUN dnf install -y htop", 0, "FROM base above it"),
        (
            "a chain",
            "FROM q.io/t AS t\nFROM configs AS c\nRUN a\nFROM c\nCOPY --from=t /bin/a /usr/bin/a",
            1,
            "FROM base in line 2",
        ),
        ("a comment", "FROM configs\n# /opt/agent\nRUN a", 0, "line 1"),
        (
            "other paths",
            "RUN sed -i s/a/b/ /etc/chrony.conf /opt/agents /etc/chrony.d2/*",
            0,
            "above",
        ),
        (
            "a stage that isn't built",
            "FROM configs AS no\nRUN rm /opt/agent\nFROM configs",
            0,
            "line 1",
        ),
    ] {
        let hint = hint_for(own).unwrap_or_else(|| panic!("{what}"));
        assert_eq!(hint.stage, stage, "{what}");
        assert!(hint.message.contains(says), "{what}: {}", hint.message);
    }
}

#[test]
fn what_names_something_of_the_config_gets_none() {
    for own in [
        "RUN cat /etc/chrony.d/a.conf",
        "RUN cat </etc/chrony.d/*.conf",
        "RUN cat /etc/chrony.d/a*",
        "RUN ls \"/etc/\"",
        "COPY --from=q.io/t / /",
        "RUN touch /opt/agent/x",
        "RUN rm /etc/localtime",
        "RUN systemctl enable agent.service",
        "RUN systemctl enable agent",
        "RUN true && \\\n cat /etc/machine-config-daemon/currentconfig",
        "COPY --from=extract /machineconfig/x /x",
        "FROM q.io/t AS t\nCOPY --from=configs /a /b\nFROM configs\nCOPY --from=t a b",
        "FROM base\nRUN a",
        "FROM base AS a\nFROM configs\nRUN a",
        "FROM q.io/b AS base\nFROM configs\nRUN a",
        "RUN --mount=from=$X,target=/a b",
        "FROM q.io/t\nFROM configs\nCOPY --from=2 a b",
    ] {
        assert_eq!(hint_for(own), None, "{own}");
    }
}
