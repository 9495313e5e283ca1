//! The Containerfile of a build: text made of the plan, from the sections in `containerfiles/`.
//!
//! Input: a [`BuildPlan`](crate::plan::BuildPlan), of which all is run or the last part only, or a
//! [`Prepared`](crate::plan::Prepared) base.
//! Output: text for buildah 1.28 and newer.
//! Invariant: the text contains only values without quotes, `$`, backslashes and line breaks; all
//! other values of a config are read from files of the context. The administrator's own text comes
//! last, unchanged; of one with a stage `FROM base`, the stages that don't need the config come
//! before it is written ([`split`]).

mod administrator;
mod error;
mod extensions_image;
mod facts;
mod findings;
mod flags;
mod hint;
mod images;
mod mount;
mod names;
mod parts;
mod render;
mod rules;
mod scan;
mod split;
mod stage_rules;
mod stages;
mod template;
mod variables;

pub use administrator::{Need, Since, has_instruction, needs};
pub use error::Error;
pub use facts::AtLine;
pub use hint::{Hint, hint};
pub use images::{check_in_cluster, context_paths, images};
pub use names::{check_names, looked_up};
pub use render::{FILES, render, render_last, render_prepared};
pub use rules::check;
pub use split::{LastStages, Part, PreparedStages, Split, SplitStage, split};
pub use stages::{By, Origin, Reference, Stage};
