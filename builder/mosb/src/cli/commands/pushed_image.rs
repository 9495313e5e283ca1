//! How a command describes the image that it pushed.

use mosb_registry::{Destination, MovedTag, Pushed};
use mosb_types::Finding;

/// `repo@digest`, or `oci:DIR@digest`.
pub fn pushed_image(pushed: &Pushed) -> String {
    let digest = *pushed.digest.value();
    match (&pushed.image, &pushed.destination) {
        (Some(image), _) => image.value().to_string(),
        (None, Destination::Layout(dir)) => format!("oci:{}@{digest}", dir.display()),
        (None, Destination::Registry(repo)) => repo.pinned(digest).to_string(),
    }
}

/// Warns if the tag with the build's name pointed to another image before.
pub fn tag_moved(pushed: &Pushed, build_name: &str) -> Option<Finding> {
    let moved = pushed.moved_tags.iter().find(|moved| moved.tag == build_name)?;
    Some(Finding::new("tag-moved", moved_text(moved)).object(moved.tag.clone()))
}

fn moved_text(moved: &MovedTag) -> String {
    let now = match &moved.former_tag {
        Some(tag) => format!("now has the tag {tag}"),
        None => "has no tag of mosb now".to_owned(),
    };
    format!("named {}, which {now}", moved.former)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;

    #[test]
    fn a_tag_is_named_only_if_the_former_image_got_it() {
        let former = Digest::of(b"former");
        for (former_tag, want) in [
            (
                Some("worker-0-1".to_owned()),
                format!("named {former}, which now has the tag worker-0-1"),
            ),
            (None, format!("named {former}, which has no tag of mosb now")),
        ] {
            let moved = MovedTag { tag: "worker-0".to_owned(), former, former_tag };
            assert_eq!(moved_text(&moved), want);
        }
    }
}
