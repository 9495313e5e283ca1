//! An administrator goes back to an image that worked.

use mosb_tests::boot_images::{MACHINE_API_NAMESPACE, ami, aws_machine_set};

use super::{all_machine_sets, details, image_of_aws, openshift};

#[test]
fn a_restored_set_stays_until_it_is_unpinned() {
    let cluster = openshift(2);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set("a", &ami(1)));
    cluster.start_controller();
    cluster.wait("the first image", || {
        (details(&cluster, MACHINE_API_NAMESPACE, "a").len() == 2).then_some(())
    });

    let history =
        cluster.mosb(&["boot-images", "history", "machineset.machine.openshift.io/a"]).ok().text();
    assert!(history.contains(&ami(1)) && history.contains(&ami(2)), "{history}");
    cluster.mosb(&["boot-images", "restore", "machineset.machine.openshift.io/a"]).ok();
    cluster.wait("the image before", || (image_of_aws(&cluster, "a") == ami(1)).then_some(()));
    cluster.wait("its entry", || {
        (details(&cluster, MACHINE_API_NAMESPACE, "a").len() == 3).then_some(())
    });
    cluster.set_release(3);
    let status = cluster.wait("the pin to be told", || {
        let status = cluster.mosb(&["boot-images", "status"]).ok().text();
        status.contains("pinned").then_some(status)
    });
    assert!(status.contains(&ami(1)), "{status}");
    assert_eq!(image_of_aws(&cluster, "a"), ami(1), "a newer golden does not end this pin");

    cluster.mosb(&["boot-images", "unpin", "machineset.machine.openshift.io/a"]).ok();
    cluster.wait("the newest image", || (image_of_aws(&cluster, "a") == ami(3)).then_some(()));
    cluster.wait("its entry", || {
        (details(&cluster, MACHINE_API_NAMESPACE, "a").len() == 4).then_some(())
    });
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "a"), [ami(1), ami(2), ami(1), ami(3)]);
}
