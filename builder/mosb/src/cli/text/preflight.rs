//! The results of preflight checks.

use super::page::{Align, Page};
use crate::cli::objects::{CheckedImage, Object, Preflight};

impl Object for Preflight {
    const KIND: &'static str = "Preflight";

    fn text(&self) -> String {
        let mut page = Page::default();
        for image in &self.images {
            of_image(&mut page, image);
        }
        let verdict = match self.outcome.as_str() {
            "passed" => "all checks passed",
            "failed" => "a check failed",
            _ => "a check could not be made; try again",
        };
        page.section(&format!("{verdict} ({} ms)", self.millis));
        page.into_text()
    }
}

fn of_image(page: &mut Page, image: &CheckedImage) {
    match &image.object {
        Some(object) => page.section(&format!("{object}: {}", image.image)),
        None => page.section(&image.image),
    }
    let rows: Vec<_> = image
        .checks
        .iter()
        .map(|check| {
            let millis = format!("{} ms", check.millis);
            vec![check.outcome.clone(), check.check.clone(), millis, check.message.clone()]
        })
        .collect();
    page.table(&[Align::Left, Align::Left, Align::Right], &rows);
    for check in &image.checks {
        if let Some(remedy) = &check.remedy {
            page.line(&format!("  {}: {remedy}", check.check));
        }
    }
}
