//! Which configs a merged value comes from.

/// The config that is being merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct AddedConfig {
    pub origin: usize,
    /// Whether the origins that it overrides are recorded.
    pub explaining: bool,
}

/// The configs that set a value.
#[derive(Debug)]
pub(super) struct ValueOrigin {
    /// The last one, whose value it is.
    pub from: usize,
    pub overridden: Vec<usize>,
}

impl ValueOrigin {
    pub fn new(from: usize) -> Self {
        Self { from, overridden: Vec::new() }
    }

    pub fn override_with(&mut self, added: AddedConfig) {
        if added.explaining {
            self.overridden.push(self.from);
        }
        self.from = added.origin;
    }

    pub fn collect(&self, origins: &mut Vec<usize>) {
        origins.push(self.from);
        origins.extend(&self.overridden);
    }
}
