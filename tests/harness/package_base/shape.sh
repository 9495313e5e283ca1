# Appended to the shape of an ostree base: `$3` is the folder of these scripts.
install -m 755 "$3/rpm-ostree" tree/usr/bin/rpm-ostree
install -m 755 "$3/update-ca-trust" tree/usr/bin/update-ca-trust
mkdir -p tree/usr/etc/pki/ca-trust/source/anchors tree/usr/etc/pki/ca-trust/extracted tree/usr/share/pki/ca-trust-source
sed -i "s|^x-init-reserved:.*|x-init-reserved: paths='/etc/pki/ca-trust/source:/usr/share/pki/ca-trust-source'|" \
    tree/usr/share/p11-kit/modules/p11-kit-trust.module
# As Fedora has it: what trusts the system trusts the compiled store.
ln -sf ../../ca-trust/extracted/pem/tls-ca-bundle.pem tree/usr/etc/pki/tls/certs/ca-certificates.crt
