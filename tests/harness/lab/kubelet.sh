# containerd, and beside it the kubelet.
containerd --config /run/lab/settings/containerd.toml &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
exec kubelet --config=/run/lab/settings/kubelet.json --kubeconfig=/run/lab/settings/kubelet \
    --node-ip="$(cat /run/lab/settings/address)" --hostname-override="$(hostname)"
