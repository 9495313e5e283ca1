//! What a cluster has for packages is used by a `RUN` line in a build pod: entitlement, repository,
//! key, trust bundle, proxy and mirrors.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::{fs, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::test_cluster::Cluster;
use mosb_tests::{Certificate, Daemon, lasting, package_images, package_repository};

const CREDENTIALS: &str = "builder:not-a-secret";
/// The repository's host. No pod can resolve it: only the proxy leads there.
const HOST: &str = "packages.example.com";

/// A repository by HTTPS, for clients with a certificate of the authority `clients` only.
fn repository(host: Ipv4Addr, server: &Certificate, clients: &Certificate) -> (Daemon, String) {
    let mut command = lasting("openssl");
    command
        .current_dir(package_repository())
        .args(["s_server", "-WWW", "-accept", &format!("{host}:0"), "-Verify", "1"])
        .arg("-verify_return_error")
        .arg("-CAfile")
        .arg(&clients.certificate)
        .arg("-cert")
        .arg(&server.certificate)
        .arg("-key")
        .arg(&server.key);
    Daemon::start(command, |line| line.strip_prefix("ACCEPT ").map(str::to_owned))
}

/// A proxy that connects a client with [`CREDENTIALS`] to `to`, if it asks for [`HOST`].
fn proxy(host: Ipv4Addr, to: String) -> String {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let to = to.clone();
            thread::spawn(move || tunnel(client?, &to));
        }
    });
    address.to_string()
}

fn tunnel(client: TcpStream, to: &str) -> io::Result<()> {
    let mut head = Vec::new();
    for line in BufReader::new(client.try_clone()?).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let has = |wanted: &str| head.iter().any(|line| line.eq_ignore_ascii_case(wanted));
    let login = format!("Proxy-Authorization: Basic {}", STANDARD.encode(CREDENTIALS));
    if !has(&format!("CONNECT {HOST}:443 HTTP/1.1")) || !has(&login) {
        return (&client).write_all(
            b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\
              Content-Length: 0\r\nConnection: close\r\n\r\n",
        );
    }
    let server = TcpStream::connect(to)?;
    (&client).write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    let (from, into) = (client.try_clone()?, server.try_clone()?);
    let sent = thread::spawn(move || {
        io::copy(&mut &from, &mut &into).ok();
        into.shutdown(Shutdown::Write).ok();
    });
    io::copy(&mut &server, &mut &client)?;
    client.shutdown(Shutdown::Write)?;
    sent.join().ok();
    Ok(())
}

fn secret(cluster: &Cluster, name: &str, data: &Value) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data });
    cluster.namespace.apply(&secret.to_string());
}

#[test]
fn a_run_line_installs_with_the_clusters_entitlement() {
    let mut cluster = Cluster::new("packages");
    let (node, pool) = (cluster.node, cluster.pool.clone());
    let directory = tempfile::tempdir().unwrap();
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    let [servers, clients] =
        ["servers", "clients"].map(|name| Certificate::authority(directory.path(), name));
    let host = node.outside();
    let signed = |name: &str, by| {
        let names = format!("DNS:{HOST}");
        Certificate::signed(directory.path(), name, &format!("/CN={name}"), &names, by)
    };
    let (server, client) = (signed("server", &servers), signed("client", &clients));
    let (_repository, address) = repository(host, &server, &clients);
    let proxy = proxy(host, address);

    secret(&cluster, "proxy", &json!({ "httpsProxy": format!("http://{CREDENTIALS}@{proxy}") }));
    secret(
        &cluster,
        &format!("etc-pki-entitlement-{pool}"),
        &json!({ "1.pem": text(&client.certificate), "1-key.pem": text(&client.key) }),
    );
    let key = text(&package_repository().join("RPM-GPG-KEY-acme"));
    secret(&cluster, "etc-pki-rpm-gpg", &json!({ "RPM-GPG-KEY-acme": key }));
    let repo = format!(
        "[acme]\nname=acme\nbaseurl=https://{HOST}/\nsslclientcert=/etc/pki/entitlement/1.pem\n\
         sslclientkey=/etc/pki/entitlement/1-key.pem\ngpgcheck=1\n\
         gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-acme\n"
    );
    cluster.config_map("etc-yum-repos-d", &json!({ "acme.repo": repo }));

    // The base comes from where its name says, the extensions image from a mirror only.
    let registry = node.registry();
    registry.push(&package_images().reference("base"), "package-base:1");
    registry.push(&package_images().reference("extensions"), "mirrored/extensions:1");
    let mirror = |by: &str| {
        json!({ "source": "images.example.com/acme", "by": by, "mirrors": [registry.repository("mirrored")],
            "mirrorSourcePolicy": "NeverContactSource" })
    };
    cluster.settings_with(&json!({
        "additionalTrustBundle": text(&servers.certificate),
        "proxy": { "secret": "proxy", "noProxy": registry.host_port.split(':').next() },
        "mirrors": [mirror("digest"), mirror("tag")],
    }));
    let name = format!("rendered-{pool}-{:032x}", 1);
    let config = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": name, "annotations": {
            "machineconfiguration.openshift.io/generated-by-controller-version": "test",
            "machineconfiguration.openshift.io/release-image-version": "4.20.0" } },
        "spec": { "osImageURL": registry.repository("package-base:1"),
            "baseOSExtensionsContainerImage": "images.example.com/acme/extensions:1",
            "config": { "ignition": { "version": "3.5.0" } },
            "kernelArguments": [], "extensions": ["usbguard"], "fips": false, "kernelType": "default" } });
    node.apply(&config.to_string());
    cluster.wants(&name);
    cluster.opt_in(Some(
        "FROM configs\nRUN dnf -y install acme-tool && acme-tool > /etc/ran && \\\n  \
         ls /usr/lib/systemd/system/usbguard.service > /etc/installed\n",
    ));
    cluster.start();
    let image = cluster.image_after("");
    assert_eq!(cluster.file(&image, "/etc/ran"), "tool\n");
    assert_eq!(
        cluster.file(&image, "/etc/installed"),
        "/usr/lib/systemd/system/usbguard.service\n"
    );
}
