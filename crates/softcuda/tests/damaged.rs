//! Texts that were right until something happened to them: refused with a message, or run to an end or a fault. Never a panic,
//! never a hang.
//!
//! Not here: what a given mistake is called (`refusals.rs`).

mod common;

use common::{BASE, Flat, parameters};
use softcuda::execute::{Launch, Limits, run_within};
use softcuda::ptx::Module;

const TEXTS: [&str; 4] = [
    include_str!("ptx/matmul.ptx"),
    include_str!("ptx/saxpy.ptx"),
    include_str!("ptx/sum.ptx"),
    include_str!("../../kernels/generated/histogram.ptx"),
];

/// Numbers that are the same in every run: a xorshift generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn word<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// One thing that happens to a text: to a line, to a word, or to a byte.
fn damage(text: &str, numbers: &mut Numbers) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return String::new();
    }
    let (at, other) = (numbers.below(lines.len()), numbers.below(lines.len()));
    match numbers.below(7) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[other].clone()),
        2 => lines.swap(at, other),
        3 => {
            // A word of elsewhere in the text, so that most of it is still well formed.
            let words: Vec<&str> = text.split_whitespace().collect();
            let new = numbers.word(&words);
            let mut own: Vec<&str> = lines[at].split_whitespace().collect();
            if !own.is_empty() {
                let place = numbers.below(own.len());
                own[place] = new;
            }
            lines[at] = own.join(" ");
        }
        4 => {
            const NUMBERS: [&str; 8] = [
                "0",
                "-1",
                "4294967295",
                "18446744073709551615",
                "99999999999999999999999",
                "0x8000000000000000",
                "0f7F800000",
                "-9223372036854775808",
            ];
            let digits = |c: char| c.is_ascii_digit();
            if let Some(start) = lines[at].find(digits) {
                let end = lines[at][start..].find(|c| !digits(c)).map_or(lines[at].len(), |end| start + end);
                lines[at].replace_range(start..end, numbers.word(&NUMBERS));
            }
        }
        5 => {
            let mut bytes = lines[at].clone().into_bytes();
            if !bytes.is_empty() {
                let place = numbers.below(bytes.len());
                bytes[place] = b" !%&(){}[]<>.,;:-+|@#$0aZ\""[numbers.below(26)];
            }
            lines[at] = String::from_utf8_lossy(&bytes).into_owned();
        }
        _ => lines.truncate(at),
    }
    lines.join("\n")
}

#[test]
fn damaged_texts_are_refused_or_run() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut ended, mut faulted) = (0, 0, 0);
    for round in 0..4_000 {
        let mut text = TEXTS[round % TEXTS.len()].to_owned();
        for _ in 0..1 + numbers.below(3) {
            text = damage(&text, &mut numbers);
        }
        let mut module = match Module::parse(&text) {
            Ok(module) => module,
            Err(error) => {
                assert!(
                    !error.message.is_empty() && error.line <= text.lines().count() as u32 + 1,
                    "{error}"
                );
                refused += 1;
                continue;
            }
        };
        let addresses: Vec<u64> = (0..module.globals().len() as u64).map(|at| BASE + at * 256).collect();
        module.place_globals(&addresses);
        for kernel in module.kernels() {
            let memory = Flat::new(1 << 14);
            let mut values = parameters(&[BASE, BASE + 1024, BASE + 2048, BASE + 4096, BASE + 8192]);
            values.resize(kernel.parameter_bytes().min(1 << 16), 0);
            let launch = Launch {
                grid: [2, 1, 1],
                block: [64, 1, 1],
                dynamic_shared_bytes: 2048,
                parameters: &values,
            };
            match run_within(kernel, &launch, &memory, &Limits { steps: 5_000 }) {
                Ok(()) => ended += 1,
                Err(_) => faulted += 1,
            }
        }
    }
    // Each of them has to be a way out, or damaging is no test.
    assert!(
        refused > 100 && ended > 100 && faulted > 20,
        "{refused} refused, {ended} ended, {faulted} faulted"
    );
}
