mod api_server;
pub(super) mod fake_cluster;
mod gates;
mod managed_stub;
mod openshift;
mod orders;
mod requests;
mod stub_ca;
mod stub_expiry;
