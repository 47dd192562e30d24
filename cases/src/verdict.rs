//! The verdict of a case: right, wrong or skipped.

/// The result of a case, or why it could not judge.
pub(crate) type Outcome = Result<Verdict, Box<dyn std::error::Error>>;

pub(crate) const RIGHT: &str = "right";
pub(crate) const WRONG: &str = "WRONG";
pub(crate) const SKIPPED: &str = "skipped";

/// Bytes of one text in a verdict.
const TEXT_MAX: usize = 400;

/// The verdict, with the seen behaviour.
pub(crate) enum Verdict {
    Right { got: String },
    Wrong { wanted: String, got: String },
    Skipped { why: String },
}

impl Verdict {
    pub(crate) fn wrong(wanted: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Wrong { wanted: wanted.into(), got: got.into() }
    }

    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped { why: why.into() }
    }

    /// Returns the verdict `right` if `is_right`, else that something else was wanted.
    pub(crate) fn of(is_right: bool, wanted: impl Into<String>, got: impl Into<String>) -> Self {
        match is_right {
            true => Self::Right { got: got.into() },
            false => Self::wrong(wanted, got),
        }
    }

    pub(crate) fn line(&self) -> String {
        let one_line =
            |text: &str| -> String { text.replace('\n', " | ").chars().take(TEXT_MAX).collect() };
        match self {
            Self::Right { got } => format!("{RIGHT}: {}", one_line(got)),
            Self::Wrong { wanted, got } => {
                format!("{WRONG}: wanted {}; got {}", one_line(wanted), one_line(got))
            }
            Self::Skipped { why } => format!("{SKIPPED}: {}", one_line(why)),
        }
    }
}
