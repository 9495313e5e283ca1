//! The boot images of machine sets.

use super::page::Page;
use super::rollout::table;
use crate::cli::objects::{
    BootImageHistory, BootImageList, BootImagePlan, BootImageRequest, BootImageSet, Object,
};

fn or_none(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

fn problems(page: &mut Page, errors: &[String]) {
    for error in errors {
        page.line(&format!("error: {error}"));
    }
}

fn warnings(page: &mut Page, warnings: &[String]) {
    for warning in warnings {
        page.line(&format!("warning: {warning}"));
    }
}

fn reasons(page: &mut Page, sets: &[BootImageSet]) {
    let rows = sets.iter().map(|set| {
        vec![
            set.set.clone(),
            or_none(set.image.as_deref()),
            set.state.clone(),
            or_none(set.pin.as_deref()),
            or_none(Some(&set.reason)),
        ]
    });
    table(page, &["SET", "IMAGE", "STATE", "PIN", "REASON"], rows);
}

impl Object for BootImageList {
    const KIND: &'static str = "BootImageList";

    fn text(&self) -> String {
        let mut page = Page::default();
        problems(&mut page, &self.errors);
        warnings(&mut page, &self.warnings);
        for note in &self.notes {
            page.line(&format!("note: {note}"));
        }
        if let Some(days @ 1..) = self.days_behind {
            page.line(&format!(
                "the oldest image in use is {days} days older than that of the release"
            ));
        }
        if self.sets.is_empty() {
            page.line("no machine set is selected; bootImages.machineManagers of ConfigMap mosb-config selects them");
        } else {
            reasons(&mut page, &self.sets);
        }
        page.into_text()
    }
}

impl Object for BootImagePlan {
    const KIND: &'static str = "BootImagePlan";

    fn text(&self) -> String {
        let mut page = Page::default();
        problems(&mut page, &self.errors);
        if self.changes.is_empty() {
            page.line("nothing would be changed");
        } else {
            let rows = self.changes.iter().map(|set| {
                vec![set.set.clone(), or_none(set.image.as_deref()), or_none(set.wanted.as_deref())]
            });
            table(&mut page, &["SET", "FROM", "TO"], rows);
        }
        if !self.unchanged.is_empty() {
            page.section("Left as they are");
            reasons(&mut page, &self.unchanged);
        }
        page.into_text()
    }
}

impl Object for BootImageHistory {
    const KIND: &'static str = "BootImageHistory";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.images.is_empty() {
            page.line(&format!("{}: no image was recorded yet", self.set));
            return page.into_text();
        }
        let rows = self.images.iter().map(|one| {
            let (number, count) = (one.number.to_string(), one.count.to_string());
            vec![
                number,
                one.image.clone(),
                or_none(one.template.as_deref()),
                one.since.clone(),
                count,
            ]
        });
        table(&mut page, &["NUMBER", "IMAGE", "TEMPLATE", "SINCE", "COUNT"], rows);
        page.into_text()
    }
}

impl Object for BootImageRequest {
    const KIND: &'static str = "BootImageRequest";

    fn text(&self) -> String {
        let mut page = Page::default();
        let set = &self.set;
        page.line(&match (&*self.action, &self.image) {
            ("restore", Some(image)) => format!("{set}: {image} is back, and pinned"),
            ("pin", _) => format!("{set}: pinned to its image"),
            _ => format!("{set}: follows the release"),
        });
        page.into_text()
    }
}
