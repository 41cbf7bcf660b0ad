//! The gate of a queue: up to which point its completions are let through.
//!
//! Not here: waiting at it (`waiting.rs`).

/// Open, or closed after a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Gate {
    /// Everything that the device has completed is reported.
    #[default]
    Open,
    /// Nothing after `up_to` is reported complete.
    Held {
        /// The last point that is let through.
        up_to: u64,
    },
}

impl Gate {
    /// Closes the gate after `last`, or leaves it where it is closed already.
    pub(super) fn hold(&mut self, last: u64) {
        if *self == Gate::Open {
            *self = Gate::Held { up_to: last };
        }
    }

    /// Lets everything up to `point` through.
    pub(super) fn release(&mut self, point: u64) {
        if let Gate::Held { up_to } = self {
            *up_to = (*up_to).max(point);
        }
    }

    pub(super) fn lets_through(self, point: u64) -> bool {
        match self {
            Gate::Open => true,
            Gate::Held { up_to } => point <= up_to,
        }
    }

    /// What is reported where the device has completed `completed`.
    pub(super) fn visible(self, completed: u64) -> u64 {
        match self {
            Gate::Open => completed,
            Gate::Held { up_to } => completed.min(up_to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lets_through_what_was_released() {
        let mut gate = Gate::Open;
        assert!(gate.lets_through(9));
        gate.hold(2);
        assert_eq!(gate.visible(5), 2);
        gate.release(3);
        assert_eq!((gate.visible(5), gate.visible(1)), (3, 1));
        assert!(gate.lets_through(3) && !gate.lets_through(4));
        // Holding again takes nothing back.
        gate.hold(0);
        gate.release(1);
        assert_eq!(gate.visible(5), 3);
    }
}
