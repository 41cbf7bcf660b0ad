//! What has to be known of a PTX text before the driver sees it: the device it is for, and how many pointers a function
//! takes. The driver reads as many arguments as the function has, so their number is checked before.
//!
//! Not here: any other understanding of PTX.

/// A PTX text without its comments.
pub(crate) struct Ptx(String);

impl Ptx {
    pub(crate) fn of(text: &str) -> Self {
        let mut code = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
            code.push_str(&rest[..start]);
            code.push(' ');
            let comment = &rest[start..];
            let end = if comment.starts_with("/*") {
                comment.find("*/").map(|end| end + 2)
            } else {
                comment.find('\n')
            };
            rest = &comment[end.unwrap_or(comment.len())..];
        }
        code.push_str(rest);
        Ptx(code)
    }

    /// The compute capability that it is for, as in `sm_80`.
    pub(crate) fn target(&self) -> Option<u32> {
        let (_, after) = self.0.split_once(".target")?;
        let (_, number) = after.lines().next()?.split_once("sm_")?;
        let digits = number.find(|at: char| !at.is_ascii_digit()).unwrap_or(number.len());
        number[..digits].parse().ok()
    }

    /// How many parameters a function takes; `None` if there is no such function, or one of its parameters is
    /// no pointer.
    pub(crate) fn parameters(&self, entry: &str) -> Option<usize> {
        let after = self.0.split(".entry").skip(1).map(str::trim_start).find_map(|after| {
            let after = after.strip_prefix(entry)?.trim_start();
            // The whole name, and then its parameters or its body.
            after.starts_with(['(', '{', '.']).then_some(after)
        })?;
        let Some(list) = after.strip_prefix('(') else { return Some(0) };
        let (list, _) = list.split_once(')')?;
        let parameters: Vec<&str> = list.split(".param").skip(1).collect();
        let pointers = parameters.iter().all(|parameter| {
            let kind = parameter.split_whitespace().find(|word| *word != ".align");
            matches!(kind, Some(".u64" | ".b64" | ".s64")) && !parameter.contains('[')
        });
        pointers.then_some(parameters.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//\n// Generated .target sm_10\n.version 7.0\n.target sm_80, debug\n.address_size 64\n\
        /* .entry twice(.param .u64 a) */\n.visible .entry twice_more(\n .param .u64 twice_param_0,\n\
        .param .u64 .ptr .global .align 4 b\n)\n.maxntid 256, 1, 1\n{ ret; }\n.entry twice (.param .u64 a) { ret; }\n\
        .entry none() { ret; }\n.entry bare { ret; }\n.entry odd(.param .u32 n) { ret; }\n\
        .entry many(.param .align 8 .b8 n[16]) { ret; }";

    #[test]
    fn the_target_is_what_the_code_says() {
        assert_eq!(Ptx::of(TEXT).target(), Some(80));
        assert_eq!(Ptx::of(".target sm_90a\n").target(), Some(90));
        assert_eq!(Ptx::of("nothing").target(), None);
    }

    #[test]
    fn parameters_are_counted_by_function() {
        let ptx = Ptx::of(TEXT);
        assert_eq!(ptx.parameters("twice_more"), Some(2));
        assert_eq!(ptx.parameters("twice"), Some(1));
        assert_eq!(ptx.parameters("none"), Some(0));
        assert_eq!(ptx.parameters("bare"), Some(0));
        assert_eq!(ptx.parameters("odd"), None);
        assert_eq!(ptx.parameters("many"), None);
        assert_eq!(ptx.parameters("absent"), None);
    }
}
