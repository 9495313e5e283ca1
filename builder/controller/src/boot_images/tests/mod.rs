mod api_server;
mod fake_cluster;
mod gates;
mod openshift;
mod orders;
mod requests;
