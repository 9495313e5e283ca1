//! Metal3: the URL of a disk image and its checksum.

use serde_json::{Value, json};

use super::{Verdict, edit, skip};
use crate::field::{image, image_at, required_text, text};
use crate::stream::File;
use crate::{BootImage, Change, Context, ImageError, Release, Skip};

/// What the API allows in a URL.
const MAX_URL_BYTES: usize = 512;

const URL: &str = "/template/spec/image/url";

pub fn cluster_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    image_at(spec, URL)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let path = URL;
    if text(spec, path)?.is_none()
        && let Some(method) = text(spec, "/template/spec/customDeploy/method")?
    {
        return skip(Skip::Lookup { field: format!("customDeploy method {method}") });
    }
    let current = required_text(spec, path)?;
    let from = image(path, current)?;
    let Some((wanted, wanted_file, is_same_kind)) = successor(current, context) else {
        let want = "the URLs of its artifacts".to_owned();
        return skip(Skip::Custom { image: current.to_owned(), want });
    };
    if wanted == current {
        return Ok(Verdict::Current(from));
    }
    if !is_same_kind {
        return skip(Skip::Unproven { image: current.to_owned() });
    }
    let usable = wanted_file.sha256.as_deref().filter(|_| wanted.len() <= MAX_URL_BYTES);
    let Some(sha256) = usable else {
        let what = format!("checksum, or no URL of at most {MAX_URL_BYTES} bytes, for {wanted}");
        return skip(Skip::NotInStream { what });
    };
    let to = image("the artifact of the stream", wanted)?;
    let part = |name: &str| format!("/template/spec/image/{name}");
    let fields = [("url", wanted), ("checksum", sha256), ("checksumType", "sha256")];
    let edits =
        fields.into_iter().filter_map(|(name, new)| edit(spec, &part(name), json!(new))).collect();
    Ok(Verdict::Change(Change { edits, from, to, object: None }))
}

/// The stream's file of the same platform and format as the one in use, with whether the one in
/// use is proven to be of a stream: by its server and its name, in which only the release differs.
fn successor<'a>(current: &str, context: &Context<'a>) -> Option<(&'a str, &'a File, bool)> {
    let images = context.stream.images_of(context.architecture)?;
    images.artifacts.values().find_map(|artifact| {
        let release = artifact.release.as_deref()?;
        artifact.formats.values().find_map(|format| {
            let file = format.disk.as_ref()?;
            let wanted = file.location.as_deref()?;
            let name = file_name(wanted)?;
            let (before, after) = name.split_once(release)?;
            let release_in_use =
                file_name(current)?.strip_prefix(before)?.strip_suffix(after)?.parse::<Release>();
            let is_proven = server(wanted) == server(current) || context.proof.covers(current);
            release_in_use.ok().map(|_| (wanted, file, is_proven))
        })
    })
}

fn file_name(url: &str) -> Option<&str> {
    Some(url.rsplit_once('/')?.1)
}

/// Scheme and host.
fn server(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    Some((scheme, rest.split('/').next().unwrap_or_default()))
}
